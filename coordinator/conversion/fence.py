"""Removes members that left or were fenced (rule 3.11).

If only classic members remain, the group is downgraded instead (rule 6.1).
"""

from collections.abc import Mapping

from coordinator.consumer.member_slots import (
    await_replacement,
    end_slot,
    end_slots,
    leave_slot,
    may_keep_slot,
)
from coordinator.consumer.regexes import forget_unused_regexes
from coordinator.consumer.removal import delete_member
from coordinator.consumer.temporary_assignments import assign_temporarily
from coordinator.conversion.downgrade import downgrade_after_removal, may_downgrade_without
from coordinator.group.rolls import record_leave
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import EpochCause, GroupEpoch, RemovalCause


def leave(step: StepBuilder, causes: Mapping[str, RemovalCause]) -> None:
    """Remove these members at their own request, or an admin's. The others are told immediately,
    unless the group is being rolled and the member may return within the grace (DEV D77)."""
    left_by_request = all(cause is RemovalCause.LEFT for cause in causes.values())
    member_id = next(iter(causes))
    if left_by_request and len(causes) == 1:
        record_leave(step, step.consumer.members[member_id])
    if not left_by_request or len(causes) > 1 or not may_keep_slot(step, member_id):
        fence(step, causes)
        return
    leave_slot(step, member_id)
    if not await_replacement(step, member_id):
        grace_over(step, member_id)


def grace_over(step: StepBuilder, member_id: str) -> None:
    """No replacement has taken the slot of a member that left. Another member gets its partitions
    for a time, or else the others are told now."""
    slot = step.state.member_slots[member_id]
    if slot.reassigned or not assign_temporarily(step, member_id):
        end_slot(step, member_id)
        fence(step, {})


def fence(step: StepBuilder, causes: Mapping[str, RemovalCause]) -> None:
    """Remove these members, each with its cause, with one epoch bump or a downgrade. Slots that
    are kept end with the next target, or with the last member."""
    if may_downgrade_without(step, causes):
        downgrade_after_removal(step, causes)
        return
    for member_id, cause in causes.items():
        delete_member(step, member_id, cause)
    forget_unused_regexes(step)
    group = step.consumer
    if not group.members:
        end_slots(step)
    step.emit(
        GroupEpoch(
            epoch=group.epoch + 1,
            metadata_hash=step.topics.metadata_hash(group.subscribers),
            cause=EpochCause.MEMBER_REMOVED,
        )
    )
