"""Where a classic member is with its rejoin: three phases, the legal moves as data.

    PrepareRebalance      it was told, or must be told, to rejoin; its join timer runs
    CompletingRebalance   it joined; its sync timer runs
    Stable                neither

The record that makes somebody a classic member of a consumer group puts it into Stable; with the
one that ends this it has no phase. Kafka keeps no such phase, it is implied there by two timers;
the answers are the same (rules 5.6, 5.7, 5.9). The phase is volatile: after a restart a member that
is behind the assignment epoch starts in PrepareRebalance.
"""

from collections.abc import Mapping
from enum import Enum, auto

from coordinator.errors import ensure
from coordinator.step_builder import StepBuilder
from coordinator.volatile import DeadlineKind, MemberPhase, MemberPhaseMoved


class PhaseEvent(Enum):
    """What moves a member from phase to phase."""

    TOLD_TO_REJOIN = auto()
    """By Heartbeat or SyncGroup; or its JoinGroup or SyncGroup waited when its group converted."""
    JOINED = auto()
    SYNCED = auto()
    GONE = auto()
    """It left, was fenced or replaced, speaks the new protocol now, or its group became classic."""


NEXT: Mapping[MemberPhase, Mapping[PhaseEvent, MemberPhase | None]] = {
    MemberPhase.STABLE: {
        PhaseEvent.TOLD_TO_REJOIN: MemberPhase.PREPARE_REBALANCE,
        PhaseEvent.JOINED: MemberPhase.COMPLETING_REBALANCE,
        PhaseEvent.SYNCED: MemberPhase.STABLE,
        PhaseEvent.GONE: None,
    },
    MemberPhase.PREPARE_REBALANCE: {
        PhaseEvent.TOLD_TO_REJOIN: MemberPhase.PREPARE_REBALANCE,
        PhaseEvent.JOINED: MemberPhase.COMPLETING_REBALANCE,
        # It learns what it may keep; it still has to rejoin.
        PhaseEvent.SYNCED: MemberPhase.PREPARE_REBALANCE,
        PhaseEvent.GONE: None,
    },
    MemberPhase.COMPLETING_REBALANCE: {
        # DEV D31: from here on only the join timer runs; in Kafka the sync timer does as well.
        PhaseEvent.TOLD_TO_REJOIN: MemberPhase.PREPARE_REBALANCE,
        PhaseEvent.JOINED: MemberPhase.COMPLETING_REBALANCE,
        PhaseEvent.SYNCED: MemberPhase.STABLE,
        PhaseEvent.GONE: None,
    },
}


def move_phase(step: StepBuilder, member_id: str, event: PhaseEvent) -> None:
    """Move a classic member and keep its join and sync timers, both a rebalance timeout long.

    Being told again does not extend the join timer; each JoinGroup restarts the sync timer. Raises
    InvariantError if the member is not a classic one.
    """
    group = step.consumer
    before = group.phases.get(member_id)
    ensure(before is not None, f"{member_id} has no phase and cannot be {event.name}")
    assert before is not None
    after = NEXT[before][event]
    if after is not None and after is not before:
        step.emit(MemberPhaseMoved(member_id, after))
    timeout_ms = group.members[member_id].rebalance_timeout_ms
    if after is not MemberPhase.PREPARE_REBALANCE:
        step.disarm(DeadlineKind.JOIN, member_id)
    elif not step.is_armed(DeadlineKind.JOIN, member_id):
        step.arm(DeadlineKind.JOIN, member_id, timeout_ms)
    if after is not MemberPhase.COMPLETING_REBALANCE:
        step.disarm(DeadlineKind.SYNC, member_id)
    else:
        step.arm(DeadlineKind.SYNC, member_id, timeout_ms)


def end_phase(step: StepBuilder, member_id: str) -> None:
    """The member is a classic one of this group no longer, if it ever was."""
    if member_id in step.consumer.phases:
        move_phase(step, member_id, PhaseEvent.GONE)
