"""Which offset requests a generic group lets through (rule 2.9)."""

from coordinator.draft import Draft
from coordinator.errors import ErrorCode, GroupError
from coordinator.events import OffsetCommitReceived
from coordinator.generic.guards import check_generation, is_laggard, known_member
from coordinator.generic.rebalance import is_join_phase_over, restart_session
from coordinator.volatile import GenericPhase


def check_commit(draft: Draft, event: OffsetCommitReceived) -> None:
    """Raises GroupError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS, COORDINATOR_LOAD_IN_PROGRESS."""
    group = draft.generic
    if event.epoch < 0 and group.phase is GenericPhase.EMPTY:
        # Also from a consumer that assigns itself: it may send an instance id all the same.
        return
    if event.epoch < 0 and not event.member_id and event.instance_id is None:
        if event.is_transactional:
            return
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and the commit names none"
        )
    member = known_member(group, event.member_id, event.instance_id)
    if not is_laggard(group, event.member_id, event.epoch):
        check_generation(group, event.epoch)
    if group.phase is GenericPhase.COMPLETING_REBALANCE and not event.is_transactional:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, "the generation is not complete")
    if is_join_phase_over(draft):
        # DEV D34: it waits for the commits in flight only, or one member could hold it up for ever.
        raise GroupError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the next generation is about to begin"
        )
    if not event.is_transactional:
        restart_session(draft, member)
