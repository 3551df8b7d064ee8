"""LeaveGroup on a classic group (rule 2.8)."""

from coordinator.classic.guards import known_leaver
from coordinator.classic.member_slots import keep_slot, leaver_with_slot
from coordinator.classic.rebalance import (
    drop_member,
    drop_pending_id,
    maybe_complete_join,
    rebalance_or_complete,
)
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import LeaveGroupReceived, Leaver
from coordinator.interface.records import RemovalCause
from coordinator.interface.replies import LeaveGroupReply, LeftMember
from kafka_codecs.error_codes import ErrorCode


def leave(step: StepBuilder, event: LeaveGroupReceived) -> None:
    """Decide a LeaveGroup; the caller knows that the group is classic. Each entry gets its own
    error code. The group rebalances once, after all removals, unless the only member that leaves
    may return within the grace (DEV D77)."""
    group = step.classic
    count_before = len(group.members)
    may_return = leaver_with_slot(step, event)
    answers = tuple(
        LeftMember(
            member_id=leaver.member_id,
            instance_id=leaver.instance_id,
            error=_leave_one(step, leaver),
        )
        for leaver in event.members
    )
    if may_return is not None and len(group.members) < count_before:
        keep_slot(step, may_return)
    elif len(group.members) < count_before:
        rebalance_or_complete(step)
    else:
        maybe_complete_join(step)
    step.answer(event.token, LeaveGroupReply(members=answers))


def _leave_one(step: StepBuilder, leaver: Leaver) -> ErrorCode:
    group = step.classic
    if leaver.member_id in group.pending_ids:
        drop_pending_id(step, leaver.member_id)
        return ErrorCode.NONE
    try:
        member = known_leaver(group, leaver)
    except GroupError as refusal:
        return refusal.code
    cause = RemovalCause.LEFT if leaver.member_id else RemovalCause.REMOVED_BY_ADMIN
    drop_member(step, member.member_id, cause)
    return ErrorCode.NONE
