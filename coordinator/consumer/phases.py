"""The rejoin phases of a classic member of a consumer group, with their legal transitions as data.

A member starts in Stable when it becomes a classic member of the group, and has no phase once it no
longer is one. Kafka implies the phase by two timers; the answers are the same (rules 5.6, 5.7,
5.9). The phase is volatile: after a restart, a member behind the assignment epoch starts in
PrepareRebalance.
"""

from collections.abc import Mapping
from enum import Enum, auto

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import InvariantError
from coordinator.interface.volatile_records import DeadlineKind, MemberPhase, MemberPhaseMoved


class PhaseEvent(Enum):
    """The causes of a transition."""

    TOLD_TO_REJOIN = auto()
    """By Heartbeat or SyncGroup, or because its parked request was released by an upgrade."""
    JOINED = auto()
    SYNCED = auto()
    GONE = auto()
    """The member left, was fenced or replaced, became native, or its group became classic."""


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
        # The member learns what it may keep, but still has to rejoin.
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

    A repeated request to rejoin does not extend the join timer; each JoinGroup restarts the sync
    timer. Raises InvariantError if the member is not classic.
    """
    group = step.consumer
    before = group.phases.get(member_id)
    if before is None:
        raise InvariantError(f"{member_id} has no phase and cannot be {event.name}")
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
    """End the phase of a member that leaves, becomes native, or was never classic."""
    if member_id in step.consumer.phases:
        move_phase(step, member_id, PhaseEvent.GONE)
