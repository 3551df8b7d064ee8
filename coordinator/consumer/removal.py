"""Deletes and replaces members of a consumer group."""

from dataclasses import replace

from coordinator.consumer.phases import end_phase
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import JOIN_EPOCH
from coordinator.interface.records import (
    Assignment,
    CurrentAssignment,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
)
from coordinator.interface.volatile_records import (
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    MemberDeparted,
)

DEPARTED_MAX = 1_000
"""Ids of departed members that are remembered in one epoch. The next member that leaves then begins
another epoch, and so does the next that joins."""


def delete_member(
    step: StepBuilder, member_id: str, cause: RemovalCause, *, keeps_target: bool = False
) -> None:
    """Write the member's tombstones, in an order that is safe at any cut of the log (rule 8.3). Its
    target may stay for a replacement (see `member_slots.py`)."""
    stop_timers(step, member_id)
    if member_id in step.consumer.assignments:
        step.emit(CurrentAssignment(member_id=member_id, value=None))
    if member_id in step.consumer.targets and not keeps_target:
        step.emit(TargetAssignmentMember(member_id=member_id, partitions=None))
    step.emit(MemberMetadata(member_id=member_id, value=None, cause=cause))


def stop_timers(step: StepBuilder, member_id: str) -> None:
    """Stop all four timers of a member that is removed (rule 3.11)."""
    step.disarm(DeadlineKind.SESSION, member_id)
    step.disarm(DeadlineKind.REVOCATION, member_id)
    end_phase(step, member_id)


def may_have_departed(step: StepBuilder, member_id: str) -> bool:
    """Whether the id may be that of a member which left its slot or its instance in this epoch."""
    departed = step.state.departed
    return member_id in departed or len(departed) >= DEPARTED_MAX


def replace_member(step: StepBuilder, old_id: str, new_id: str) -> None:
    """Replace a static member that returned under a new id. The new one inherits everything except
    the epoch (rule 3.3).

    DEV D68: the inherited partitions count as assigned at that one too. The instance may have had
    the new id before, even last, and a late commit of that time has an older epoch.
    """
    group = step.consumer
    member, target = group.members[old_id], group.targets.get(old_id)
    metadata = group.target_metadata.get(old_id)
    current = group.assignments[old_id]
    revoke_by_ms = step.state.deadlines.get(DeadlineKey(DeadlineKind.REVOCATION, old_id))
    delete_member(step, old_id, RemovalCause.REPLACED)
    step.emit(MemberMetadata(member_id=new_id, value=replace(member, member_id=new_id)))
    if target is not None:
        step.emit(TargetAssignmentMember(member_id=new_id, partitions=target, metadata=metadata))
    inherited = Assignment(
        member_epoch=JOIN_EPOCH,
        previous_epoch=JOIN_EPOCH,
        state=current.state,
        assigned=dict.fromkeys(current.assigned, JOIN_EPOCH),
        pending_revocation=dict.fromkeys(current.pending_revocation, JOIN_EPOCH),
    )
    step.emit(CurrentAssignment(member_id=new_id, value=inherited))
    if new_id != old_id and len(step.state.departed) < DEPARTED_MAX:
        step.emit(MemberDeparted(old_id))
    if revoke_by_ms is not None:
        # A new id does not extend the revocation deadline (deviation D4).
        step.emit(DeadlineSet(DeadlineKey(DeadlineKind.REVOCATION, new_id), revoke_by_ms))
