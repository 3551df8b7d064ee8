"""A batch decides as if each of its requests had been durable before the next one came."""

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from coordinator.config import GroupConfig
from coordinator.engine import GroupEngine
from coordinator.events import Event, TimePassed
from coordinator.records import DurableRecord
from coordinator.replies import Reply
from coordinator.simulation.replay import snapshot
from coordinator.topics import Topics
from coordinator.volatile import Token
from gateway.groups.batch import BATCH_MAX, Batch
from tests.support.group_script import GroupScript
from tests.support.stranger import Stranger

STEPS = 120


class Handled(NamedTuple):
    """An event as the engine got it."""

    event: Event
    now_ms: int
    topics: Topics


class Recorded(Stranger):
    """Remembers what it sent; the group stays in memory all the time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sent: list[Handled] = []
        feed = self.script.feed

        def remember(event: Event) -> object:
            self.sent.append(Handled(event, self.script.now_ms, self.script.topics))
            return feed(event)

        self.script.feed = remember  # type: ignore[assignment, method-assign]

    def restart(self) -> None:
        pass


def in_batches(events: list[Handled], dice: random.Random) -> Iterator[list[Handled]]:
    """As a task would gather them: what is due comes first in its batch."""
    batch: list[Handled] = []
    for handled in events:
        if batch and (isinstance(handled.event, TimePassed) or dice.random() < 0.2):
            yield batch
            batch = []
        batch.append(handled)
    yield batch


@pytest.mark.parametrize("seed", range(30))
def test_together_or_one_by_one(seed: int) -> None:
    """The same records, answers and state, however the requests are gathered; and until they are
    made real, the group has not changed."""
    stranger = Recorded(seed)
    for _ in range(STEPS):
        stranger.step()
    engine = GroupEngine(stranger.script.engine.state.group_id, stranger.script.config)
    durable: list[DurableRecord] = []
    answers: dict[Token, Reply] = {}
    for events in in_batches(stranger.sent, random.Random(seed)):
        batch, before = Batch(engine), snapshot(engine.state)
        for event, now_ms, topics in events:
            batch.decide(event, now_ms=now_ms, topics=topics)
        assert snapshot(engine.state) == before
        durable += batch.durable
        for decision in batch.decisions:
            answers.update(decision.step.replies)
            for record in decision.step.records:
                engine.apply(record)
    assert durable == stranger.script.log
    assert answers == stranger.script.answers
    assert snapshot(engine.state) == snapshot(stranger.script.engine.state)


def test_who_need_not_wait_for_the_log_does_not() -> None:
    """There is room only beside somebody who does wait for it."""
    script = GroupScript(config=GroupConfig())
    script.native("n", 0)
    batch = Batch(script.engine)
    assert not batch.has_room, "nothing is to be written yet"
    batch.decide(TimePassed(), now_ms=script.now_ms, topics=script.topics)
    assert not batch.has_room


def test_a_batch_has_an_end() -> None:
    """Nobody waits for more than so many others."""
    stranger = Recorded(1)
    stranger.script.native("n", 0)
    batch = Batch(GroupEngine("g", stranger.script.config))
    while batch.has_room or not batch.decisions:
        [(event, now_ms, topics)] = stranger.sent
        batch.decide(event, now_ms=now_ms, topics=topics)
    assert len(batch.decisions) == BATCH_MAX
