"""LeaveGroup on a classic group (rule 2.8)."""

from coordinator.interface.records import RemovalCause
from coordinator.interface.replies import JoinGroupReply, SyncGroupReply
from coordinator.interface.volatile_records import (
    ClassicGroupMemberDropped,
    ClassicPhase,
    DeadlineKind,
)
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript


def test_each_entry_has_its_own_code(group: GroupScript) -> None:
    """The answer repeats the ids of the request."""
    group.given_classic_group(
        given_classic_group_member("a"),
        given_classic_group_member("b", instance_id="i2"),
        given_classic_group_member("c"),
    )
    reply = group.leave(("a", "i2"), "c", ("", "i2"), ("", "i9"), ("a", "i9"), "nobody", "")
    assert [(m.member_id, m.instance_id, m.error) for m in reply.members] == [
        ("a", "i2", ErrorCode.FENCED_INSTANCE_ID),
        ("c", None, ErrorCode.NONE),
        ("", "i2", ErrorCode.NONE),
        ("", "i9", ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", "i9", ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    dropped = [r for r in group.last_step.records if isinstance(r, ClassicGroupMemberDropped)]
    assert [(r.member_id, r.cause) for r in dropped] == [
        ("c", RemovalCause.LEFT),
        ("b", RemovalCause.REMOVED_BY_ADMIN),
    ]


def test_a_leave_starts_a_rebalance(group: GroupScript) -> None:
    """The last member that leaves makes the group empty, at the next generation."""
    group.given_classic_group(
        given_classic_group_member("a"), given_classic_group_member("b"), generation=3
    )
    group.leave("a")
    assert group.classic.core.phase is ClassicPhase.PREPARING_REBALANCE
    assert group.classic.core.leader is None
    group.leave("b")
    assert group.classic.phase is ClassicPhase.EMPTY
    assert group.classic.core.generation == 4
    assert not group.engine.state.deadlines


def test_leaving_answers_a_parked_join(group: GroupScript) -> None:
    """The member left on another connection."""
    group.given_classic_group(given_classic_group_member("a"), given_classic_group_member("b"))
    waiting = group.send_join("a", topics=("bar",))
    group.leave("a")
    assert group.answer(waiting, JoinGroupReply).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_answers_a_parked_sync(group: GroupScript) -> None:
    """The member left on another connection."""
    group.given_classic_group(given_classic_group_member("a"), given_classic_group_member("b"))
    for member_id in ("a", "b"):
        group.send_join(member_id, topics=("bar",))
    waiting = group.send_sync("b", 1)
    group.leave("b")
    assert group.answer(waiting, SyncGroupReply).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_returns_a_pending_id(group: GroupScript) -> None:
    """The id no longer blocks the join phase."""
    group.given_classic_group(given_classic_group_member("a"))
    handed_out = group.take_id()
    waiting = group.send_join("a")
    assert group.is_parked(waiting)
    assert group.leave(handed_out).members[0].error == ErrorCode.NONE
    assert group.answer(waiting, JoinGroupReply).generation == 1
    assert group.left_ms(DeadlineKind.PENDING_ID, handed_out) is None


def test_without_a_group_every_member_is_unknown(group: GroupScript) -> None:
    """Each entry gets UNKNOWN_MEMBER_ID."""
    reply = group.leave("a", ("", "i1"))
    assert {member.error for member in reply.members} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(reply.members) == 2


def test_one_request_removes_all_leavers_before_the_join_phase_completes(
    group: GroupScript,
) -> None:
    """The join phase does not complete for a member that the same request removes."""
    group.given_classic_group(
        given_classic_group_member("a"), given_classic_group_member("b"), generation=3
    )
    waiting = group.send_join("a", topics=("bar",))
    reply = group.leave("b", "a")
    assert {member.error for member in reply.members} == {ErrorCode.NONE}
    assert group.answer(waiting, JoinGroupReply).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.classic.phase is ClassicPhase.EMPTY
    assert group.classic.core.generation == 4
