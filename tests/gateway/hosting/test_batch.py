"""A batch decides each request as if the earlier ones were durable."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple, Never

import pytest

from coordinator.engine import GroupEngine
from coordinator.group.state import GroupState, Record
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.errors import InvariantError, LongComputation
from coordinator.interface.events import Event, HeartbeatReceived, TimePassed
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.batch import BATCH_MAX, Batch
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.replay import snapshot
from tests.support.group_script import GroupScript
from tests.support.hosted_scene import HostedScene, error_of, hosting_rules
from tests.support.random_requests import RandomRequests

STEPS = 120


class Handled(NamedTuple):
    """An event as the engine received it."""

    event: Event
    now_ms: int
    topics: Topics


class Recorded(RandomRequests):
    """Records its answers, and keeps the group in memory."""

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
    """Gather the events as a task does: due deadlines first."""
    batch: list[Handled] = []
    for handled in events:
        if batch and (isinstance(handled.event, TimePassed) or dice.random() < 0.2):
            yield batch
            batch = []
        batch.append(handled)
    yield batch


@pytest.mark.parametrize("seed", range(30))
def test_gathered_requests_are_decided_like_single_ones(seed: int) -> None:
    """Records, answers and state are the same. Until the batch is applied, the group does not
    change."""
    requests = Recorded(seed)
    for _ in range(STEPS):
        requests.step()
    engine = GroupEngine(requests.script.engine.state.group_id, requests.script.config)
    durable: list[DurableRecord] = []
    answers: dict[Token, Reply] = {}
    for events in in_batches(requests.sent, random.Random(seed)):
        batch, before = Batch(engine), snapshot(engine.state)
        for event, now_ms, topics in events:
            batch.decide(event, now_ms=now_ms, topics=topics)
        assert snapshot(engine.state) == before
        batch.close()
        durable += batch.durable
        for decision in batch.decisions:
            answers.update(decision.step.replies)
            for record in decision.step.records:
                engine.apply(record)
    assert durable == requests.script.log
    assert answers == requests.script.answers
    assert snapshot(engine.state) == snapshot(requests.script.engine.state)


def test_the_group_cannot_change_while_a_batch_still_decides_on_it() -> None:
    """Later requests of the batch would be decided on a mixture of two states."""
    requests = Recorded(1)
    for member_id in "ab":
        requests.script.native(member_id, 0)
    engine = GroupEngine("g", requests.script.config)
    batch = Batch(engine)
    for event, now_ms, topics in requests.sent:
        batch.decide(event, now_ms=now_ms, topics=topics)
    record = batch.decisions[0].step.records[0]
    with pytest.raises(InvariantError):
        engine.apply(record)
    batch.close()
    engine.apply(record)


def test_a_record_is_applied_to_one_copy_after_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a decision, and the decisions that follow, need the same copy."""
    requests = Recorded(1)
    for member_id in "abc":
        requests.script.native(member_id, 0)
    batch = Batch(GroupEngine("g", requests.script.config))
    applied: list[Record] = []

    def count(state: GroupState, record: Record) -> None:
        applied.append(record)
        apply(state, record)

    apply = GroupState.apply
    monkeypatch.setattr(GroupState, "apply", count)
    for event, now_ms, topics in requests.sent:
        batch.decide(event, now_ms=now_ms, topics=topics)
    records = [record for decision in batch.decisions for record in decision.step.records]
    assert len(applied) == 2 * len(records), "in the step, and in the copy"


def test_requests_without_records_do_not_wait_for_the_log() -> None:
    """Such requests join only a batch that waits for the log anyway."""
    script = GroupScript(config=GroupConfig())
    script.native("n", 0)
    batch = Batch(script.engine)
    assert not batch.has_room, "nothing is to be written yet"
    batch.decide(TimePassed(), now_ms=script.now_ms, topics=script.topics)
    assert not batch.has_room


def test_a_refused_conversion_is_reported() -> None:
    """An operator sees who cannot come back to the classic protocol, and why."""
    config = GroupConfig(consumer_migration_policy=MigrationPolicy.DISABLED)
    scene = HostedScene(hosting_rules(config=config))
    scene.native_member()
    refused = scene.join()
    assert error_of(refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (event,) = scene.events_named("conversion_refused")
    assert "disabled" in event["reason"]


def test_the_size_of_a_batch_is_limited() -> None:
    """No request waits for more than this many others."""
    requests = Recorded(1)
    requests.script.native("n", 0)
    batch = Batch(GroupEngine("g", requests.script.config))
    while batch.has_room or not batch.decisions:
        [(event, now_ms, topics)] = requests.sent
        batch.decide(event, now_ms=now_ms, topics=topics)
    assert len(batch.decisions) == BATCH_MAX


def test_no_long_computation_looks_for_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long computation would hold up all groups. The engine checks a request before it
    computes."""

    def handle(*_: object, may_take_long: bool, **_how: Any) -> Never:
        assert not may_take_long
        raise LongComputation

    monkeypatch.setattr(GroupEngine, "handle", handle)
    batch = Batch(GroupEngine("g", GroupConfig()))
    event = HeartbeatReceived(token=1, member_id="m", instance_id=None, generation=1)
    assert batch.refusal(event, now_ms=0, topics=Topics()) is None
