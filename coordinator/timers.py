"""What happens when a deadline is due (rules 2.5, 2.7, 3.12, 5.9). Who set it is not known here."""

from coordinator.consumer.group import ConsumerGroup
from coordinator.conversion import classic_only
from coordinator.conversion.fence import fence
from coordinator.draft import Draft
from coordinator.generic import rebalance
from coordinator.generic.group import GenericGroup
from coordinator.offsets import end_commit
from coordinator.records import RemovalCause
from coordinator.volatile import DeadlineCleared, DeadlineKey, DeadlineKind

FENCE_CAUSES = {
    DeadlineKind.SESSION: RemovalCause.SESSION_EXPIRED,
    DeadlineKind.JOIN: RemovalCause.JOIN_TIMED_OUT,
    DeadlineKind.SYNC: RemovalCause.SYNC_TIMED_OUT,
    DeadlineKind.REVOCATION: RemovalCause.REVOCATION_TIMED_OUT,
}


def deadline_reached(draft: Draft, key: DeadlineKey) -> None:
    """Act on a deadline that ran out; it runs no longer."""
    draft.emit(DeadlineCleared(key))
    if key.kind is DeadlineKind.LOST_COMMIT:
        end_commit(draft, int(key.owner))
        return
    match draft.state.group:
        case GenericGroup() as group:
            _in_generic_group(draft, group, key)
        case ConsumerGroup() as group:
            _in_consumer_group(draft, group, key)
        case None:
            pass


def _in_generic_group(draft: Draft, group: GenericGroup, key: DeadlineKey) -> None:
    match key.kind:
        case DeadlineKind.SESSION:
            rebalance.remove_member(draft, key.owner, RemovalCause.SESSION_EXPIRED)
        case DeadlineKind.NEW_MEMBER_JOIN:
            rebalance.remove_member(draft, key.owner, RemovalCause.JOIN_TIMED_OUT)
        case DeadlineKind.PENDING_ID:
            rebalance.drop_pending_id(draft, key.owner)
            rebalance.maybe_complete_join(draft)
        case DeadlineKind.INITIAL_REBALANCE_DELAY:
            rebalance.initial_delay_over(draft)
        case DeadlineKind.JOIN_PHASE:
            rebalance.maybe_complete_join(draft)
        case DeadlineKind.SYNC_PHASE if group.unsynced:
            rebalance.sync_phase_over(draft)
        case _:
            pass


def _in_consumer_group(draft: Draft, group: ConsumerGroup, key: DeadlineKey) -> None:
    if key.kind is DeadlineKind.TARGET_DUE:
        classic_only.go_on(draft)
    elif key.owner in group.members:
        fence(draft, {key.owner: FENCE_CAUSES[key.kind]})
