"""Where a classic member of a consumer group is with its rejoin: three phases, legal moves as data.

    PrepareRebalance      it was told to rejoin; its join timer runs
    CompletingRebalance   it joined; its sync timer runs
    Stable                neither

Kafka keeps no such phase, it is implied there by two timers; the answers are the same (spec 5.6,
5.7, 5.9). The phase is volatile: after a restart a member that is behind the assignment epoch
starts in PrepareRebalance.
"""

from collections.abc import Mapping
from enum import Enum, auto

from coordinator.draft import Draft
from coordinator.volatile import DeadlineKind, MemberPhase, MemberPhaseMoved


class PhaseEvent(Enum):
    """What moves a member from phase to phase."""

    TOLD_TO_REJOIN = auto()
    JOINED = auto()
    SYNCED = auto()


NEXT: Mapping[MemberPhase, Mapping[PhaseEvent, MemberPhase]] = {
    MemberPhase.STABLE: {
        PhaseEvent.TOLD_TO_REJOIN: MemberPhase.PREPARE_REBALANCE,
        PhaseEvent.JOINED: MemberPhase.COMPLETING_REBALANCE,
        PhaseEvent.SYNCED: MemberPhase.STABLE,
    },
    MemberPhase.PREPARE_REBALANCE: {
        PhaseEvent.TOLD_TO_REJOIN: MemberPhase.PREPARE_REBALANCE,
        PhaseEvent.JOINED: MemberPhase.COMPLETING_REBALANCE,
        # It learns what it may keep; it still has to rejoin.
        PhaseEvent.SYNCED: MemberPhase.PREPARE_REBALANCE,
    },
    MemberPhase.COMPLETING_REBALANCE: {
        PhaseEvent.TOLD_TO_REJOIN: MemberPhase.PREPARE_REBALANCE,
        PhaseEvent.JOINED: MemberPhase.COMPLETING_REBALANCE,
        PhaseEvent.SYNCED: MemberPhase.STABLE,
    },
}


def move_phase(draft: Draft, member_id: str, event: PhaseEvent) -> None:
    """Move a classic member and keep its join and sync timers, both a rebalance timeout long.

    Being told again does not extend the join timer; each JoinGroup restarts the sync timer.
    """
    group = draft.consumer
    before = group.phases[member_id]
    after = NEXT[before][event]
    if after is not before:
        draft.emit(MemberPhaseMoved(member_id, after))
    timeout_ms = group.members[member_id].rebalance_timeout_ms
    if after is not MemberPhase.PREPARE_REBALANCE:
        draft.disarm(DeadlineKind.JOIN, member_id)
    elif not draft.is_armed(DeadlineKind.JOIN, member_id):
        draft.arm(DeadlineKind.JOIN, member_id, timeout_ms)
    if after is not MemberPhase.COMPLETING_REBALANCE:
        draft.disarm(DeadlineKind.SYNC, member_id)
    elif event is PhaseEvent.JOINED:
        draft.arm(DeadlineKind.SYNC, member_id, timeout_ms)
