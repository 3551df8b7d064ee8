"""The records that delete a member of a consumer group, and those that replace it."""

from dataclasses import replace

from coordinator.consumer.phases import end_phase
from coordinator.draft import Draft
from coordinator.records import (
    Assignment,
    CurrentAssignment,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
)
from coordinator.volatile import DeadlineKey, DeadlineKind, DeadlineSet


def delete_member(draft: Draft, member_id: str, cause: RemovalCause) -> None:
    """Write the member's tombstones in the order that a log may be cut in (rule 8.3)."""
    stop_timers(draft, member_id)
    if member_id in draft.consumer.assignments:
        draft.emit(CurrentAssignment(member_id=member_id, value=None))
    if member_id in draft.consumer.targets:
        draft.emit(TargetAssignmentMember(member_id=member_id, partitions=None))
    draft.emit(MemberMetadata(member_id=member_id, value=None, cause=cause))


def stop_timers(draft: Draft, member_id: str) -> None:
    """None of the four timers of a member outlives its membership (rule 3.11)."""
    draft.disarm(DeadlineKind.SESSION, member_id)
    draft.disarm(DeadlineKind.REVOCATION, member_id)
    end_phase(draft, member_id)


def replace_member(draft: Draft, old_id: str, new_id: str) -> None:
    """A static member came back under a new id: it inherits everything but the epoch (rule 3.3)."""
    group = draft.consumer
    member, target = group.members[old_id], group.targets.get(old_id)
    current = group.assignments[old_id]
    revoke_by_ms = draft.state.deadlines.get(DeadlineKey(DeadlineKind.REVOCATION, old_id))
    delete_member(draft, old_id, RemovalCause.REPLACED)
    draft.emit(MemberMetadata(member_id=new_id, value=replace(member, member_id=new_id)))
    if target is not None:
        draft.emit(TargetAssignmentMember(member_id=new_id, partitions=target))
    inherited = Assignment(
        member_epoch=0,
        previous_epoch=0,
        state=current.state,
        assigned=current.assigned,
        pending_revocation=current.pending_revocation,
    )
    draft.emit(CurrentAssignment(member_id=new_id, value=inherited))
    if revoke_by_ms is not None:
        # Coming back under a new id is no more time to give partitions up (deviation D4).
        draft.emit(DeadlineSet(DeadlineKey(DeadlineKind.REVOCATION, new_id), revoke_by_ms))
