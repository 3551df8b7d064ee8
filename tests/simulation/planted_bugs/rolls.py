"""Bugs in what keeps consumers from switching (hold, pause and rest), and in what a roll does to
members that are not restarting."""

from collections.abc import Mapping
from typing import Any

from coordinator.consumer.target import is_target_awaited
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.roll_policy import RollMode, RollPolicy
from coordinator.native.heartbeat_interval import next_interval_ms
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by


@noticed_by(Invariant.HELD)
def a_hold_is_ignored(patch: Patch) -> None:
    """Consumers switch though an operator holds the group."""
    patch.setattr("coordinator.native.heartbeat._check_not_held", lambda _step, _event: None)


@noticed_by(Invariant.HELD)
def a_rest_is_ignored(patch: Patch) -> None:
    """A group is converted although it rests."""
    patch.setattr("coordinator.conversion.upgrade.check_rested", lambda _conversions, _now_ms: None)


@noticed_by(Invariant.PAUSED)
def a_pause_is_ignored(patch: Patch) -> None:
    """A paused group computes its target."""

    def is_awaited(step: StepBuilder) -> bool:
        return is_target_awaited(step) or step.consumer.assignment_epoch < step.consumer.epoch

    patch.setattr("coordinator.consumer.target.is_target_awaited", is_awaited)


@noticed_by(Invariant.LIVENESS)
def a_pause_never_ends(patch: Patch) -> None:
    """A group is paused by whatever an operator says."""

    overrides_for = RollPolicy.overrides_for

    def overrides(policy: RollPolicy, _mode: RollMode, native_count: int) -> Mapping[str, int]:
        return overrides_for(policy, RollMode.PAUSE, native_count)

    patch.setattr(RollPolicy, "overrides_for", overrides)


@noticed_by(Invariant.LEFT)
def a_leaver_that_stays_connected_keeps_its_slot(patch: Patch) -> None:
    """The partitions of a consumer that polled too late wait for a replacement."""
    patch.setattr("coordinator.engine.end_slot_of_leaver", lambda _step, _event: None)


@noticed_by(Invariant.LIVENESS, Invariant.INTERVALS, Invariant.TARGETS)
def a_leaver_that_stays_connected_is_followed_by_no_target(patch: Patch) -> None:
    """The place of a consumer that polled too late ends without a new epoch."""
    patch.setattr("coordinator.handlers.leavers.fence", lambda _step, _causes: None)


@noticed_by(Invariant.HURRIED)
def a_member_with_a_slow_connection_is_hurried(patch: Patch) -> None:
    """A member is told the short interval while its heartbeats wait behind slow commits."""

    def interval_ms(*group: Any, calls_within_ms: int, **how: Any) -> int:
        return next_interval_ms(*group, calls_within_ms=0, **how)

    patch.setattr("coordinator.native.heartbeat.next_interval_ms", interval_ms)
    patch.setattr("coordinator.handlers.steady.next_interval_ms", interval_ms)
