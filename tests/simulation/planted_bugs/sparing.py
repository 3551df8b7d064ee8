"""Bugs in the rules that let a roll cost less."""

from typing import Any

from coordinator.consumer import target
from coordinator.consumer.reconcile import would_change
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.group.target_loads import Loads
from coordinator.interface.config import GroupConfig
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

_RELEASES = ("coordinator.assignors.uniform.release", "coordinator.assignors.range.release")


@noticed_by(Invariant.INTERVALS)
def a_burst_waits_for_nothing(patch: Patch) -> None:
    """Each target counts as the second after a quiet time."""

    def due_at_ms(group: ConsumerGroup, config: GroupConfig, now_ms: int) -> int:
        return real(group, config, now_ms) if config.second_target_waits else 0

    real = target.target_due_at_ms
    patch.setattr(target, "target_due_at_ms", due_at_ms)
    patch.setattr("coordinator.handlers.steady.target_due_at_ms", due_at_ms)


@noticed_by(Invariant.DISTURBED)
def a_new_target_calls_everybody(patch: Patch) -> None:
    """A classic member rejoins for each target, although it gains and loses nothing."""
    patch.setattr("coordinator.mixed.heartbeat.would_change", lambda *_: True)


@noticed_by(Invariant.QUIET_REJOIN, Invariant.LIVENESS)
def nobody_is_called_for_a_free_partition(patch: Patch) -> None:
    """A classic member behind the target rejoins only if it has to give up a partition."""

    def loses(step: StepBuilder, member_id: str) -> bool:
        assigned = step.consumer.assignments[member_id].assigned.keys()
        return would_change(step, member_id) and not assigned <= step.consumer.target_of(member_id)

    patch.setattr("coordinator.mixed.heartbeat.would_change", loses)


@noticed_by(Invariant.BALANCED)
def nobody_is_spared(patch: Patch) -> None:
    """A target takes partitions from eager members as from all others."""

    def release(spared: Loads, others: Loads, total: int, _percent: int) -> int:
        for member_id in [*spared]:
            others.put(member_id, spared.get(member_id) or 0)
            spared.drop(member_id)
        return total

    for name in _RELEASES:
        patch.setattr(name, release)


@noticed_by(Invariant.BALANCED, Invariant.TARGETS, Invariant.NO_ERROR)
def sparing_has_no_bounds(patch: Patch) -> None:
    """The other members take whatever the eager ones leave."""

    def release(spared: Loads, _others: Loads, total: int, _percent: int) -> int:
        return total - spared.total()

    for name in _RELEASES:
        patch.setattr(name, release)


@noticed_by(Invariant.INDEXES)
def who_was_told_to_rejoin_is_spared(patch: Patch) -> None:
    """An eager member that waits for partitions keeps its target, like one that has everything."""
    patch.setattr(
        "coordinator.group.consumer_group.ConsumerGroup._sort_in", _sort_in_without_looking
    )


def _sort_in_without_looking(group: Any, member_id: str, _routing: object) -> None:
    member = group.members.get(member_id)
    group.loads.drop(member_id)
    group.spared.drop(member_id)
    if member is not None:
        loads = group.spared if member.is_eager else group.loads
        loads.put(member_id, len(group.target_of(member_id)))
