"""Expired deadlines (rules 2.5, 2.7, 3.12, 5.9)."""

from collections.abc import Iterable
from typing import Any

import pytest

from coordinator.group.state import Record
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers.expired_deadlines import deadline_reached
from coordinator.interface.records import MemberMetadata, RemovalCause
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import (
    ClassicGroupMemberDropped,
    ClassicPhase,
    DeadlineCleared,
    DeadlineKey,
    DeadlineKind,
)
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}


def reach(group: GroupScript, kind: DeadlineKind, owner: str = "") -> StepBuilder:
    step = StepBuilder(
        group.engine.state, config=group.config, topics=group.topics, now_ms=group.now_ms
    )
    deadline_reached(step, DeadlineKey(kind, owner))
    return step


def dropped_ids(records: Iterable[Record]) -> list[tuple[str, RemovalCause]]:
    return [(r.member_id, r.cause) for r in records if isinstance(r, ClassicGroupMemberDropped)]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (DeadlineKind.SESSION, RemovalCause.SESSION_EXPIRED),
        (DeadlineKind.JOIN, RemovalCause.JOIN_TIMED_OUT),
        (DeadlineKind.SYNC, RemovalCause.SYNC_TIMED_OUT),
        (DeadlineKind.REVOCATION, RemovalCause.REVOCATION_TIMED_OUT),
    ],
)
def test_a_member_of_a_consumer_group_is_fenced(
    group: GroupScript, kind: DeadlineKind, cause: RemovalCause
) -> None:
    """The record has the cause."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    step = reach(group, kind, "c1")
    causes = [r.cause for r in step.records if isinstance(r, MemberMetadata)]
    assert causes == [cause]
    assert step.consumer.members.keys() == {"n1"}


@pytest.mark.parametrize("kind", [k for k in DeadlineKind if k is not DeadlineKind.LOST_COMMIT])
def test_a_deadline_without_a_group_is_only_cleared(group: GroupScript, kind: DeadlineKind) -> None:
    """The group no longer exists."""
    assert reach(group, kind, "a").records == [DeadlineCleared(DeadlineKey(kind, "a"))]


@pytest.mark.parametrize(
    "kind", [DeadlineKind.JOIN, DeadlineKind.SYNC, DeadlineKind.REVOCATION, DeadlineKind.TARGET_DUE]
)
def test_a_deadline_of_another_kind_of_group_is_only_cleared(
    group: GroupScript, kind: DeadlineKind
) -> None:
    """A classic group has no such deadline."""
    group.given_classic_group(given_classic_group_member("a", FOO_0))
    assert reach(group, kind, "a").records == [DeadlineCleared(DeadlineKey(kind, "a"))]


def test_a_silent_classic_member_is_removed(group: GroupScript) -> None:
    """The others rebalance."""
    group.given_classic_group(
        given_classic_group_member("a", FOO_0), given_classic_group_member("b")
    )
    step = reach(group, DeadlineKind.SESSION, "a")
    assert step.classic.members.keys() == {"b"}
    assert step.classic.phase is ClassicPhase.PREPARING_REBALANCE
    assert dropped_ids(step.records) == [("a", RemovalCause.SESSION_EXPIRED)]


def test_an_unused_id_expires(group: GroupScript) -> None:
    """The id blocked the join phase for a session timeout."""
    group.given_classic_group(given_classic_group_member("a"))
    group.take_id(session_timeout_ms=6_000)
    waiting = group.send_join("a")
    group.wait(5_999)
    assert group.is_parked(waiting)
    group.wait(1)
    assert group.answer(waiting, JoinGroupReply).generation == 1


def test_a_new_members_parked_join_times_out(group: GroupScript) -> None:
    """After 300 s the member is removed, and the join phase continues."""
    how: dict[str, Any] = {"session_timeout_ms": 600_000, "rebalance_timeout_ms": 600_000}
    a = group.take_id(**how)
    group.send_join(a, **how)
    group.wait(3_000)
    group.sync(a, 1)
    newcomer = group.take_id(**how)
    waiting = group.send_join(newcomer, **how)
    group.wait(299_999)
    assert group.is_parked(waiting)
    group.wait(1)
    assert group.answer(waiting, JoinGroupReply).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.classic.members.keys() == {a}
    assert dropped_ids(group.last_step.records) == [(newcomer, RemovalCause.JOIN_TIMED_OUT)]


def test_a_member_that_never_syncs_is_removed(group: GroupScript) -> None:
    """A new join phase starts for the others."""
    ids = group.stable_classic_group({"a": FOO_0, "b": {}})
    group.send_join(ids["a"], topics=("bar",), session_timeout_ms=60_000)
    group.send_join(ids["b"], topics=("bar",), session_timeout_ms=60_000)
    leader = group.classic.core.leader
    assert leader is not None
    assert group.sync(leader, 2).error == ErrorCode.NONE
    assert group.left_ms(DeadlineKind.SYNC_PHASE) == 10_000
    group.wait(10_000)
    assert group.classic.members.keys() == {leader}
    assert group.beat(leader, 2).error == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("kind", [DeadlineKind.SESSION, DeadlineKind.PENDING_ID])
def test_a_deadline_of_a_removed_member_fences_no_other(
    group: GroupScript, kind: DeadlineKind
) -> None:
    """The owner of the deadline is not a member."""
    group.given_consumer_group(given_native("n1"))
    assert reach(group, kind, "a").records == [DeadlineCleared(DeadlineKey(kind, "a"))]


def test_a_complete_sync_phase_ends_without_a_rebalance(group: GroupScript) -> None:
    """All members have synced."""
    group.given_classic_group(given_classic_group_member("a", FOO_0))
    key = DeadlineKey(DeadlineKind.SYNC_PHASE)
    assert reach(group, DeadlineKind.SYNC_PHASE).records == [DeadlineCleared(key)]
