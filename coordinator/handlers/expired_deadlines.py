"""Handles expired deadlines (rules 2.5, 2.7, 3.12, 5.9)."""

from coordinator.classic import rebalance, temporary_assignments
from coordinator.conversion import classic_only
from coordinator.conversion.fence import fence, grace_over
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers.offsets import end_commit
from coordinator.interface.records import RemovalCause
from coordinator.interface.volatile_records import DeadlineCleared, DeadlineKey, DeadlineKind

FENCE_CAUSES = {
    DeadlineKind.SESSION: RemovalCause.SESSION_EXPIRED,
    DeadlineKind.JOIN: RemovalCause.JOIN_TIMED_OUT,
    DeadlineKind.SYNC: RemovalCause.SYNC_TIMED_OUT,
    DeadlineKind.REVOCATION: RemovalCause.REVOCATION_TIMED_OUT,
}


def deadline_reached(step: StepBuilder, key: DeadlineKey) -> None:
    """Handle a deadline that has expired and is already cleared."""
    step.emit(DeadlineCleared(key))
    if key.kind is DeadlineKind.LOST_COMMIT:
        end_commit(step, int(key.owner))
        return
    match step.state.group:
        case ClassicGroup() as group:
            _in_classic_group(step, group, key)
        case ConsumerGroup() as group:
            _in_consumer_group(step, group, key)
        case None:
            pass


def _in_classic_group(step: StepBuilder, group: ClassicGroup, key: DeadlineKey) -> None:
    match key.kind:
        case DeadlineKind.SESSION:
            rebalance.remove_member(step, key.owner, RemovalCause.SESSION_EXPIRED)
        case DeadlineKind.GRACE:
            temporary_assignments.grace_over(step, key.owner)
        case DeadlineKind.NEW_MEMBER_JOIN:
            rebalance.remove_member(step, key.owner, RemovalCause.JOIN_TIMED_OUT)
        case DeadlineKind.PENDING_ID:
            rebalance.drop_pending_id(step, key.owner)
            rebalance.maybe_complete_join(step)
        case DeadlineKind.INITIAL_REBALANCE_DELAY:
            rebalance.initial_delay_over(step)
        case DeadlineKind.JOIN_PHASE:
            rebalance.maybe_complete_join(step)
        case DeadlineKind.SYNC_PHASE if group.unsynced:
            rebalance.sync_phase_over(step)
        case _:
            pass


def _in_consumer_group(step: StepBuilder, group: ConsumerGroup, key: DeadlineKey) -> None:
    if key.kind is DeadlineKind.TARGET_DUE:
        classic_only.advance(step)
    elif key.kind is DeadlineKind.GRACE:
        grace_over(step, key.owner)
    elif key.owner in group.members:
        fence(step, {key.owner: FENCE_CAUSES[key.kind]})
