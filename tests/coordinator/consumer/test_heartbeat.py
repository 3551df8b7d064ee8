"""ConsumerGroupHeartbeat (spec 3.5 to 3.9); the scenarios tell who may speak."""

import pytest

from coordinator.errors import ErrorCode
from coordinator.records import (
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.volatile import DeadlineKind
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, Owned, make_topics

ALL = {"foo": (0, 1, 2)}


def test_the_first_member_of_a_new_group(group: GroupScript) -> None:
    """Epoch 2, all partitions, and five kinds of records in Kafka's order (spec section 8)."""
    reply = group.native("n1")
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("n1", 2, 5_000)
    assert group.named(reply.assignment) == ALL
    assert [type(record) for record in group.last_step.durable] == [
        MemberMetadata,
        GroupEpoch,
        TargetAssignmentMember,
        TargetAssignmentMetadata,
        CurrentAssignment,
    ]


@pytest.mark.parametrize(
    ("topics", "owned", "timeout_ms", "tells"),
    [
        (None, None, -1, False),
        (None, ALL, -1, False),
        (("foo",), ALL, -1, False),
        (("foo",), None, 10_000, False),
        (("foo",), ALL, 10_000, True),
    ],
)
def test_a_full_heartbeat_is_told_the_assignment(
    group: GroupScript,
    topics: tuple[str, ...] | None,
    owned: Owned | None,
    timeout_ms: int,
    tells: bool,
) -> None:
    """Others only when it changed (spec 3.8)."""
    group.native("n1")
    reply = group.native("n1", 2, topics=topics, owned=owned, rebalance_timeout_ms=timeout_ms)
    assert (reply.assignment is not None) is tells
    assert group.last_step.durable == ()
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 45_000


def test_what_is_left_out_keeps_its_value(group: GroupScript) -> None:
    """Topics, timeout, assignor and instance id alike."""
    group.native("n1", instance_id="i1", assignor="range", rebalance_timeout_ms=7_000)
    before = group.consumer.members["n1"]
    group.native("n1", 2)
    assert group.consumer.members["n1"] == before
    assert (before.instance_id, before.server_assignor) == ("i1", "range")
    assert (before.rebalance_timeout_ms, before.topic_names) == (7_000, ("foo",))


def test_a_classic_member_turns_native_in_place(group: GroupScript) -> None:
    """Its id, its partitions and its epoch stay; the timers of a classic member end."""
    group.given_consumer_group(given_classic("c1", epoch=9, assigned=ALL), given_native("n1"))
    assert group.left_ms(DeadlineKind.JOIN, "c1") is not None
    reply = group.native("c1")
    assert reply.member_epoch == 10
    assert group.named(reply.assignment) == ALL
    assert group.consumer.epoch == 10
    assert not group.consumer.members["c1"].is_classic
    assert group.left_ms(DeadlineKind.JOIN, "c1") is None
    assert group.beat("c1", 10).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unsubscription_counts_at_once(make_group: MakeGroup) -> None:
    """The client still owns the topic: it has to give it up at the same epoch, although the
    next target is not due (KAFKA-19431)."""
    group = make_group(topics=make_topics(foo=3, bar=1))
    both = {**ALL, "bar": (0,)}
    group.native("n1", topics=("foo", "bar"))
    reply = group.native("n1", 2, topics=("foo",), owned=both)
    assert reply.member_epoch == 2
    assert group.named(reply.assignment) == ALL
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (3, 2)
    assert group.native("n1", 2, owned=ALL).member_epoch == 2
    group.wait(1_000)
    assert group.native("n1", 2, owned=ALL).member_epoch == 3
    assert group.view().state == "Stable"
