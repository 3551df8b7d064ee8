"""The engine's shorter way for a steady heartbeat decides what its rules decide."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import ConsumerHeartbeatReceived, HeartbeatReceived
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import DeadlineKind
from tests.support.group_script import GroupScript
from tests.support.group_values import make_topics, partitions, topic_id
from tests.support.stranger import Stranger

SEEDS, STEPS = 30, 120
Beat = HeartbeatReceived | ConsumerHeartbeatReceived

STATEMENTS: tuple[dict[str, Any], ...] = (
    {"owned": frozenset()},
    {"owned": partitions({"foo": (0,)})},
    {"topic_names": ("bar",)},
    {"topic_regex": "b.*"},
    {"server_assignor": "range"},
    {"rack_id": "another"},
    {"rebalance_timeout_ms": 77},
    {"client_id": "another"},
    {"client_host": "/10.0.0.1"},
)
"""What a heartbeat of the new protocol may state besides the epoch."""


def beats(script: GroupScript) -> Iterator[Beat]:
    """Heartbeats of each member in both protocols: at its epoch and beside it, with the instance
    id of each member, and with each statement."""
    group = script.engine.state.group
    if group is None:
        return
    for member_id, member in group.members.items():
        if isinstance(group, ConsumerGroup):
            epoch = group.assignments[member_id].member_epoch
        else:
            epoch = group.core.generation
        native = ConsumerHeartbeatReceived(
            token=0,
            version=1,
            member_id=member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="/127.0.0.1",
            instance_id=member.instance_id,
            fresh_id=topic_id("fresh"),
        )
        for member_epoch in (epoch - 1, epoch, epoch + 1):
            yield replace(native, member_epoch=member_epoch)
        for instance_id in {None, *group.instances}:
            yield replace(native, instance_id=instance_id)
            for generation in (epoch - 1, epoch, epoch + 1):
                yield HeartbeatReceived(
                    token=0, member_id=member_id, instance_id=instance_id, generation=generation
                )
        for stated in STATEMENTS:
            yield replace(native, **stated)


def way_of(script: GroupScript, beat: Beat, topics: Topics) -> str:
    """Which way decides the heartbeat, and by the rules of which group. Both ways must agree."""
    decided = script.engine.handle(beat, now_ms=script.now_ms, topics=topics)
    steady = script.engine.prolong(beat, now_ms=script.now_ms, topics=topics)
    way = f"{type(beat).__name__} in {type(script.engine.state.group).__name__}"
    if steady is None:
        return f"{way}, by the rules"
    record, reply = steady
    assert decided == Step(records=(record,), replies=((0, reply),)), script.transcript()
    return way


@cache
def ways(seed: int) -> Counter[str]:
    """The ways of all heartbeats that were possible in the history of a random group."""
    stranger, seen = Stranger(seed), Counter[str]()
    for _ in range(STEPS):
        stranger.step()
        script = stranger.script
        grown = make_topics(script.topics.version + 1, foo=4, bar=2)
        for topics in (script.topics, grown):
            seen.update(way_of(script, beat, topics) for beat in beats(script))
    return seen


@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_ways_decide_alike(seed: int) -> None:
    """At every moment of a random group, for a heartbeat of every member."""
    assert ways(seed)


def test_random_groups_have_steady_heartbeats_of_each_kind() -> None:
    """Otherwise the test above shows nothing."""
    seen = sum((ways(seed) for seed in range(SEEDS)), Counter())
    for way in (
        "HeartbeatReceived in ClassicGroup",
        "HeartbeatReceived in ConsumerGroup",
        "ConsumerHeartbeatReceived in ConsumerGroup",
    ):
        assert seen[way] >= SEEDS, seen


def test_a_parked_sync_stops_the_session(group: GroupScript) -> None:
    """The member waits for the leader, and its client cannot send a heartbeat meanwhile."""
    ids = [group.take_id() for _ in range(2)]
    tokens = [group.send_join(each) for each in ids]
    group.wait(3 * group.config.classic_initial_rebalance_delay_ms)
    joined = [group.answer(token, JoinGroupReply) for token in tokens]
    leader = joined[0].leader
    (waiting,) = (each for each in ids if each != leader)
    assert group.is_parked(group.send_sync(waiting, joined[0].generation))
    assert [way_of(group, beat, group.topics) for beat in beats(group) if beat.member_id == waiting]
    group.beat(waiting, joined[0].generation)
    assert group.left_ms(DeadlineKind.SESSION, waiting) is None
