"""The engine's shorter way for heartbeats and commits decides what its rules decide."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from coordinator.engine import step_of
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    HeartbeatReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
)
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import DeadlineKind
from tests.support.engine_requests import native_received
from tests.support.group_script import GroupScript
from tests.support.group_values import make_topics, partitions
from tests.support.hypothesis_profile import thinned_out
from tests.support.random_requests import RandomRequests

SEEDS, STEPS = thinned_out(range(30), 4), 120
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
"""What a heartbeat of the new protocol may state in addition to the epoch."""


def beats(script: GroupScript) -> Iterator[Beat]:
    """Heartbeats of each member in both protocols: at its epoch and next to it, with the instance
    id of each member, and with each statement."""
    group = script.engine.state.group
    if group is None:
        return
    for member_id, member in group.members.items():
        if isinstance(group, ConsumerGroup):
            epoch = group.assignments[member_id].member_epoch
        else:
            epoch = group.core.generation
        native = native_received(member_id, epoch, token=0, instance_id=member.instance_id)
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
        if isinstance(group, ConsumerGroup):
            yield from repetitions(group, native)


def repetitions(
    group: ConsumerGroup, native: ConsumerHeartbeatReceived
) -> Iterator[ConsumerHeartbeatReceived]:
    """Heartbeats that repeat what is known of the member: its partitions, or everything."""
    member = group.members[native.member_id]
    grant = group.grants.get(native.member_id)
    owning = replace(native, owned=frozenset(group.assignments[native.member_id].assigned))
    yield owning
    full = replace(
        owning,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=member.topic_names[::-1],
        server_assignor=member.server_assignor,
        rack_id=member.rack_id,
        connection=0 if grant is None else grant.connection,
    )
    for follows_answers in (True, False):
        for behind in (0, 1):
            yield replace(
                full, follows_answers=follows_answers, connection=full.connection + behind
            )


def commits(script: GroupScript) -> Iterator[OffsetCommitReceived | OffsetCommitEnded]:
    """Commits of each member, at its epoch and next to it, of what it holds and of more, and the
    ends of all commits in flight."""
    group = script.engine.state.group
    for token in script.engine.state.commits:
        yield OffsetCommitEnded(commit=token)
        yield OffsetCommitEnded(commit=token, answer_lost=True)
    if group is None:
        return
    for member_id, member in group.members.items():
        held: frozenset[Partition] = frozenset()
        if isinstance(group, ConsumerGroup):
            epoch = group.assignments[member_id].member_epoch
            held = frozenset(group.assignments[member_id].held_partitions)
        else:
            epoch = group.core.generation
        commit = OffsetCommitReceived(
            token=0,
            version=9,
            member_id=member_id,
            instance_id=member.instance_id,
            epoch=epoch,
            partitions=held,
            topic_names=frozenset({"foo"}),
        )
        for member_epoch in (-1, epoch - 1, epoch, epoch + 1):
            yield replace(commit, epoch=member_epoch)
        for instance_id in {None, *group.instances}:
            yield replace(commit, instance_id=instance_id)
        yield replace(commit, partitions=held | partitions({"foo": (0, 1)}))
        yield replace(commit, is_transactional=True)
        yield replace(commit, version=8)
        yield replace(commit, member_id="")


def way_of(script: GroupScript, event: Event, topics: Topics) -> str:
    """The way that decides the event, and the kind of group whose rules it uses. Both ways must
    agree."""
    steady = script.engine.decide_at_rest(event, now_ms=script.now_ms, topics=topics)
    way = f"{type(event).__name__} in {type(script.engine.state.group).__name__}"
    if steady is None:
        return f"{way}, by the rules"
    decided = script.engine.handle(event, now_ms=script.now_ms, topics=topics)
    assert decided == step_of(event, steady), script.transcript()
    return way


@cache
def ways(seed: int) -> Counter[str]:
    """The ways of all events that were possible in the history of a random group."""
    requests, seen = RandomRequests(seed), Counter[str]()
    for _ in range(STEPS):
        requests.step()
        script = requests.script
        grown = make_topics(script.topics.version + 1, foo=4, bar=2)
        for topics in (script.topics, grown):
            for event in (*beats(script), *commits(script)):
                seen[way_of(script, event, topics)] += 1
    return seen


@pytest.mark.parametrize("seed", SEEDS)
def test_both_ways_decide_alike(seed: int) -> None:
    """This holds at every moment of a random group, for heartbeats and commits of every member."""
    assert ways(seed)


def test_random_groups_take_the_shorter_way_with_each_kind_of_event() -> None:
    """The test above shows nothing if they do not."""
    seen = sum((ways(seed) for seed in SEEDS), Counter())
    for way in (
        "HeartbeatReceived in ClassicGroup",
        "HeartbeatReceived in ConsumerGroup",
        "ConsumerHeartbeatReceived in ConsumerGroup",
        "OffsetCommitReceived in ConsumerGroup",
        "OffsetCommitEnded in ConsumerGroup",
    ):
        assert seen[way], seen


def test_commits_of_a_stable_classic_group_take_the_shorter_way(group: GroupScript) -> None:
    """Random groups are seldom Stable."""
    ids = group.stable_classic_group({"a": {"foo": (0,)}, "b": {"foo": (1,)}})
    own = [
        commit
        for commit in commits(group)
        if isinstance(commit, OffsetCommitReceived) and commit.member_id == ids["a"]
    ]
    at_epoch, other = own[2:4]  # at the epoch, and beyond it
    in_flight = replace(at_epoch, token=77, partitions=partitions({"foo": (0,)}))
    seen = Counter(way_of(group, commit, group.topics) for commit in (at_epoch, in_flight, other))
    assert seen["OffsetCommitReceived in ClassicGroup"] == 2
    group.feed(in_flight)
    again = way_of(group, replace(in_flight, token=78), group.topics)
    assert again == "OffsetCommitReceived in ClassicGroup, by the rules"
    ended = way_of(group, OffsetCommitEnded(commit=77), group.topics)
    assert ended == "OffsetCommitEnded in ClassicGroup"


def test_a_parked_sync_stops_the_session(group: GroupScript) -> None:
    """The member waits for the leader, and its client cannot send a heartbeat meanwhile."""
    ids = [group.take_id() for _ in range(2)]
    tokens = [group.send_join(member_id) for member_id in ids]
    group.wait(3 * group.config.classic_initial_rebalance_delay_ms)
    joined = [group.answer(token, JoinGroupReply) for token in tokens]
    leader = joined[0].leader
    (waiting,) = (member_id for member_id in ids if member_id != leader)
    assert group.is_parked(group.send_sync(waiting, joined[0].generation))
    assert [way_of(group, beat, group.topics) for beat in beats(group) if beat.member_id == waiting]
    group.beat(waiting, joined[0].generation)
    assert group.left_ms(DeadlineKind.SESSION, waiting) is None


def test_a_client_that_repeats_what_it_owns_takes_the_shorter_way(group: GroupScript) -> None:
    """A client that repeats everything does not: the answer would list its partitions, and those
    are granted only under a confirmed anchor."""
    group.native("a", connection=1)
    epoch = group.consumer.epoch
    beat = next(beat for beat in beats(group) if isinstance(beat, ConsumerHeartbeatReceived))
    owning, full, *_ = repetitions(group.consumer, replace(beat, member_epoch=epoch))
    shorter = "ConsumerHeartbeatReceived in ConsumerGroup"
    assert way_of(group, owning, group.topics) == shorter
    assert way_of(group, full, group.topics) == f"{shorter}, by the rules"
    owning_less = replace(owning, owned=frozenset())
    assert way_of(group, owning_less, group.topics) == f"{shorter}, by the rules"
    grown = make_topics(group.topics.version + 1, foo=4)
    assert way_of(group, owning, grown) == f"{shorter}, by the rules"
