"""Scenarios 36 to 46: SyncGroup and Heartbeat on a consumer group."""

import pytest

from coordinator.interface.records import MemberState
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import GivenMember, given_classic, given_native
from tests.support.group_script import GroupScript, read_assignment

FOO_0 = {"foo": (0,)}
REST = {"foo": (1, 2)}


@pytest.mark.parametrize("version", range(4))
def test_36_an_assignment_has_the_members_own_version(group: GroupScript, version: int) -> None:
    """Clients read no newer version than they write."""
    c1 = given_classic("c1", assigned=FOO_0, embedded_version=version)
    group.given_consumer_group(c1, given_native("n1", assigned=REST))
    reply = group.sync("c1", 10)
    assert reply.assignment[:2] == version.to_bytes(2)
    assert read_assignment(reply.assignment) == FOO_0
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")


def test_37_a_sync_by_the_wrong_member(group: GroupScript) -> None:
    """The member is unknown, does not hold the instance id, or is native."""
    group.given_consumer_group(given_classic("c1", instance_id="i1"), given_native("n1"))
    assert group.sync("c9", 10).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync("c1", 10, instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync("n1", 10, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert group.sync("n1", 10).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("n1", 10).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_38_a_sync_for_another_protocol(group: GroupScript) -> None:
    """The request must name the first protocol in the member's list. Before v5 it may name none."""
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_native("n1"))
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.sync("c1", 10, protocol_name="roundrobin").error == inconsistent
    assert group.sync("c1", 10, protocol_type="connect").error == inconsistent
    unnamed = {"protocol_type": None, "protocol_name": None}
    assert group.sync("c1", 10, version=5, **unnamed).error == inconsistent
    assert group.sync("c1", 10, version=4, **unnamed).error == ErrorCode.NONE


def test_39_a_sync_of_another_generation(group: GroupScript) -> None:
    """A classic member's generation is its member epoch."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    assert group.sync("c1", 9).error == ErrorCode.ILLEGAL_GENERATION


def test_40_a_sync_after_a_newer_target_asks_to_rejoin(group: GroupScript) -> None:
    """The member must rejoin within its rebalance timeout."""
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_native("n1"))
    group.native("n2")
    assert group.sync("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 10_000


def test_41_only_a_computed_target_makes_members_rejoin(group: GroupScript) -> None:
    """The group epoch is ahead, but the assignment interval has not elapsed."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0),
        given_native("n1", assigned=REST),
        epoch=11,
        assignment_epoch=10,
        timestamp_ms=group.now_ms,
    )
    assert group.native("n1", 10).error == ErrorCode.NONE
    assert group.sync("c1", 10).error == ErrorCode.NONE
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.wait(1_000)
    assert group.sync("c1", 10).error == ErrorCode.NONE
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.native("n1", 10)
    assert group.consumer.assignment_epoch == 11
    assert group.sync("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_42_heartbeats_keep_a_member_in_the_group(group: GroupScript) -> None:
    """A session without heartbeats removes the member."""
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_native("n1"))
    for _ in range(3):
        group.wait(5_000)
        assert group.beat("c1", 10).error == ErrorCode.NONE
    group.wait(9_999)
    assert "c1" in group.consumer.members
    group.wait(1)
    assert group.consumer.members.keys() == {"n1"}
    assert group.consumer.epoch == 11


@pytest.mark.parametrize(
    ("c1", "n1", "error"),
    [
        pytest.param(
            given_classic("c1", epoch=9, assigned=FOO_0),
            given_native("n1", assigned=REST),
            ErrorCode.REBALANCE_IN_PROGRESS,
            id="behind",
        ),
        pytest.param(
            given_classic(
                "c1", target=FOO_0, pending=FOO_0, state=MemberState.UNREVOKED_PARTITIONS
            ),
            given_native("n1", assigned=REST),
            ErrorCode.REBALANCE_IN_PROGRESS,
            id="must revoke",
        ),
        pytest.param(
            given_classic("c1", target=FOO_0, state=MemberState.UNRELEASED_PARTITIONS),
            given_native("n1", assigned=REST),
            ErrorCode.REBALANCE_IN_PROGRESS,
            id="all awaited partitions are free",
        ),
        pytest.param(
            given_classic("c1", target={"foo": (0, 1)}, state=MemberState.UNRELEASED_PARTITIONS),
            given_native("n1", assigned=REST, target={"foo": (2,)}),
            ErrorCode.NONE,
            id="one partition is still held",
        ),
        pytest.param(
            given_classic("c1", assigned=FOO_0),
            given_native("n1", assigned=REST),
            ErrorCode.NONE,
            id="settled",
        ),
    ],
)
def test_43_a_heartbeat_asks_to_rejoin_for_three_causes(
    group: GroupScript, c1: GivenMember, n1: GivenMember, error: ErrorCode
) -> None:
    """The answer is REBALANCE_IN_PROGRESS for each cause, otherwise NONE."""
    group.given_consumer_group(c1, n1)
    assert group.beat("c1", c1.epoch).error == error
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 10_000


def test_44_a_member_that_never_rejoins_is_fenced(group: GroupScript) -> None:
    """Neither heartbeats nor repeated requests to rejoin extend the time."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, rebalance_timeout_ms=500), given_native("n1")
    )
    group.native("n2")
    for _ in range(5):
        assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
        group.wait(99)
    group.wait(5)
    assert "c1" not in group.consumer.members


def test_45_a_member_that_never_syncs_is_fenced(group: GroupScript) -> None:
    """The member joined but does not request its assignment."""
    group.given_consumer_group(given_native("n1", assigned={"foo": (0, 1, 2)}))
    group.join("c1", rebalance_timeout_ms=5_000)
    group.wait(4_999)
    assert group.beat("c1", 11).error == ErrorCode.NONE
    group.wait(1)
    assert group.consumer.members.keys() == {"n1"}


def test_46_a_heartbeat_without_a_group_is_refused(group: GroupScript) -> None:
    """The answer is UNKNOWN_MEMBER_ID, and no group is created."""
    assert group.beat("c1", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.engine.state.group is None
