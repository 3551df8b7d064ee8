"""SyncGroup on a classic group (rule 2.6)."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.replies import SyncGroupReply
from coordinator.interface.volatile_records import ClassicPhase, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript, embedded_assignment, subscription

FOO = subscription(["foo"])


def two_joined_members(group: GroupScript) -> tuple[str, str]:
    """A leader and a follower at generation 1 that have not synced."""
    ids = [group.take_id() for _ in range(2)]
    for id_ in ids:
        group.send_join(id_)
    group.wait(6_000)
    leader = group.classic.core.leader
    assert leader in ids
    return (ids[0], ids[1]) if ids[0] == leader else (ids[1], ids[0])


def test_the_follower_waits_for_the_leader(group: GroupScript) -> None:
    """The leader's assignment is durable before any member receives it."""
    leader, follower = two_joined_members(group)
    waiting = group.send_sync(follower, 1)
    assert group.is_parked(waiting)
    assert group.left_ms(DeadlineKind.SESSION, follower) is None
    group.sync(leader, 1, assignments={leader: {"foo": (0,)}, follower: {"foo": (1, 2)}})
    reply = group.answer(waiting, SyncGroupReply)
    assert reply.assignment == embedded_assignment({"foo": (1, 2)})
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert group.left_ms(DeadlineKind.SESSION, follower) == 10_000
    assert group.classic.phase is ClassicPhase.STABLE
    assert group.left_ms(DeadlineKind.SYNC_PHASE) is None


def test_a_member_that_the_leader_omitted_gets_zero_bytes(group: GroupScript) -> None:
    """The member gets neither a refusal nor an empty structure."""
    leader, follower = two_joined_members(group)
    group.sync(leader, 1, assignments={leader: {"foo": (0, 1, 2)}, "stranger": {"foo": (0,)}})
    assert group.sync(follower, 1).assignment == b""


def test_a_member_that_the_leader_omits_loses_what_it_had(group: GroupScript) -> None:
    """The leader has given it to others."""
    leader, follower = two_joined_members(group)
    group.sync(leader, 1, assignments={leader: {"foo": (0,)}, follower: {"foo": (1, 2)}})
    group.sync(follower, 1)
    for id_ in (leader, follower):
        group.send_join(id_)
    group.sync(leader, 2, assignments={leader: {"foo": (0, 1, 2)}})
    reply = group.sync(follower, 2)
    assert (reply.error, reply.assignment) == (ErrorCode.NONE, b"")


def test_a_repeated_sync_answers_the_first(group: GroupScript) -> None:
    """KAFKA-20938: Kafka never answers the first request."""
    _leader, follower = two_joined_members(group)
    first, second = group.send_sync(follower, 1), group.send_sync(follower, 1)
    assert group.answer(first, SyncGroupReply).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.is_parked(second)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2, "protocol_name": "sticky"}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None, "protocol_name": None, "version": 4}, ErrorCode.NONE),
    ],
)
def test_a_sync_must_match_the_groups_protocol(
    group: GroupScript, how: dict[str, object], error: ErrorCode
) -> None:
    """From v5 on, type and name are required. Given values must match the group's."""
    leader, _ = two_joined_members(group)
    request: dict[str, object] = {"member_id": leader, "generation": 1, **how}
    assert group.sync(**request).error == error  # type: ignore[arg-type]


def test_a_sync_during_a_join_phase_is_refused(group: GroupScript) -> None:
    """REBALANCE_IN_PROGRESS also answers requests that were parked when the join phase began."""
    leader, follower = two_joined_members(group)
    waiting = group.send_sync(follower, 1)
    group.send_join(leader, topics=("foo", "bar"))
    assert group.answer(waiting, SyncGroupReply).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.sync(follower, 1).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_between_join_and_sync_survives_the_downgrade(make_group: MakeGroup) -> None:
    """Its SyncGroup names the protocol of its JoinGroup, the first in its list, but the group may
    select another. The member must rejoin, not fail."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    protocols = (("sticky", FOO), ("range", FOO))
    group.native("n1")
    group.join(version=3, protocols=(("range", FOO), ("sticky", FOO)))
    joined = group.join(version=3, protocols=protocols)
    group.native("n1", -1)
    assert group.classic.core.generation == joined.generation
    assert group.classic.core.protocol == "range"
    reply = group.sync(joined.member_id, joined.generation, protocol_name=joined.protocol_name)
    assert reply.error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_with_a_foreign_instance_id_is_fenced(group: GroupScript) -> None:
    """The client learns that another member has its instance id (KIP-345)."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"), given_classic_group_member("b")
    )
    assert group.sync("a", 0, instance_id="i1").error == ErrorCode.NONE
    assert group.sync("b", 0, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert group.sync("b", 0, instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_may_sync_after_the_leader(group: GroupScript) -> None:
    """The sync phase does not remove it."""
    leader, follower = two_joined_members(group)
    group.sync(leader, 1)
    assert group.left_ms(DeadlineKind.SYNC_PHASE) is not None
    group.sync(follower, 1)
    assert group.left_ms(DeadlineKind.SYNC_PHASE) is None
    assert not group.classic.unsynced
