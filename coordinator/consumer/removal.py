"""Deletes and replaces members of a consumer group."""

from dataclasses import replace

from coordinator.consumer.phases import end_phase
from coordinator.records import (
    Assignment,
    CurrentAssignment,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
)
from coordinator.step_builder import StepBuilder
from coordinator.volatile import DeadlineKey, DeadlineKind, DeadlineSet


def delete_member(step: StepBuilder, member_id: str, cause: RemovalCause) -> None:
    """Write the member's tombstones, in an order that is safe at any cut of the log (rule 8.3)."""
    stop_timers(step, member_id)
    if member_id in step.consumer.assignments:
        step.emit(CurrentAssignment(member_id=member_id, value=None))
    if member_id in step.consumer.targets:
        step.emit(TargetAssignmentMember(member_id=member_id, partitions=None))
    step.emit(MemberMetadata(member_id=member_id, value=None, cause=cause))


def stop_timers(step: StepBuilder, member_id: str) -> None:
    """Stop all four timers of a member that is removed (rule 3.11)."""
    step.disarm(DeadlineKind.SESSION, member_id)
    step.disarm(DeadlineKind.REVOCATION, member_id)
    end_phase(step, member_id)


def replace_member(step: StepBuilder, old_id: str, new_id: str) -> None:
    """Replace a static member that returned under a new id. The new one inherits everything except
    the epoch (rule 3.3)."""
    group = step.consumer
    member, target = group.members[old_id], group.targets.get(old_id)
    current = group.assignments[old_id]
    revoke_by_ms = step.state.deadlines.get(DeadlineKey(DeadlineKind.REVOCATION, old_id))
    delete_member(step, old_id, RemovalCause.REPLACED)
    step.emit(MemberMetadata(member_id=new_id, value=replace(member, member_id=new_id)))
    if target is not None:
        step.emit(TargetAssignmentMember(member_id=new_id, partitions=target))
    inherited = Assignment(
        member_epoch=0,
        previous_epoch=0,
        state=current.state,
        assigned=current.assigned,
        pending_revocation=current.pending_revocation,
    )
    step.emit(CurrentAssignment(member_id=new_id, value=inherited))
    if revoke_by_ms is not None:
        # A new id does not extend the revocation deadline (deviation D4).
        step.emit(DeadlineSet(DeadlineKey(DeadlineKind.REVOCATION, new_id), revoke_by_ms))
