"""Heartbeat on a classic group (rule 2.7)."""

from typing import Any

from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript

ALL = {"foo": (0, 1, 2)}


def test_a_heartbeat_keeps_a_member_in(group: GroupScript) -> None:
    """A session without heartbeats removes the member."""
    group.given_classic_group(
        given_classic_group_member("a", ALL), given_classic_group_member("b"), generation=3
    )
    group.wait(9_000)
    assert group.beat("a", 3).error == ErrorCode.NONE
    group.wait(9_000)
    assert group.classic.members.keys() == {"a"}
    assert group.beat("a", 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_generation_is_checked_before_the_phase(group: GroupScript) -> None:
    """A stale member must drop its partitions, not rejoin with them."""
    group.given_classic_group(
        given_classic_group_member("a", ALL), given_classic_group_member("b"), generation=3
    )
    group.leave("b")
    assert group.beat("a", 2).error == ErrorCode.ILLEGAL_GENERATION
    assert group.beat("a", 3).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.beat("b", 3).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_must_rejoin_stays_in_the_group(group: GroupScript) -> None:
    """REBALANCE_IN_PROGRESS restarts the session too."""
    group.given_classic_group(
        given_classic_group_member("a", ALL), given_classic_group_member("b"), generation=3
    )
    group.leave("b")
    group.wait(2_000)
    group.beat("a", 3)
    assert group.left_ms(DeadlineKind.SESSION, "a") == 10_000


def test_a_heartbeat_between_join_and_sync_succeeds(group: GroupScript) -> None:
    """The member is waiting for the leader."""
    group.given_classic_group(given_classic_group_member("a", ALL))
    assert group.join("a").generation == 1
    assert group.beat("a", 1).error == ErrorCode.NONE


def test_a_heartbeat_with_a_foreign_instance_id_is_fenced(group: GroupScript) -> None:
    """The client learns that another member has its instance id (KIP-345)."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"), given_classic_group_member("b")
    )
    assert group.beat("a", 0, instance_id="i1").error == ErrorCode.NONE
    assert group.beat("b", 0, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert group.beat("b", 0, instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_parked_request_stops_the_session(group: GroupScript) -> None:
    """A heartbeat during a parked JoinGroup does not start a session that could expire."""
    how: dict[str, Any] = {"rebalance_timeout_ms": 60_000}
    ids = group.stable_classic_group({"a": ALL, "b": {}}, session_timeout_ms=60_000, **how)
    waiting = group.send_join(ids["a"], topics=("bar",), session_timeout_ms=6_000, **how)
    group.beat(ids["a"], 1)
    assert group.left_ms(DeadlineKind.SESSION, ids["a"]) is None
    group.wait(20_000)
    assert group.is_parked(waiting)
    assert group.classic.members.keys() == set(ids.values())
