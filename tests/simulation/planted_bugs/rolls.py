"""Bugs in what keeps consumers from switching: hold, pause and rest."""

from collections.abc import Mapping

from coordinator.consumer.target import is_target_awaited
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers.roll_policy import overrides_for
from coordinator.interface.config import GroupConfig, RollPolicy
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by


@noticed_by(Invariant.HELD)
def a_hold_is_ignored(patch: Patch) -> None:
    """Consumers switch though an operator holds the group."""
    patch.setattr("coordinator.native.heartbeat.check_not_held", lambda _step, _event: None)


@noticed_by(Invariant.HELD)
def a_rest_is_ignored(patch: Patch) -> None:
    """A group is converted although it rests."""
    patch.setattr("coordinator.conversion.upgrade.check_rested", lambda _step: None)


@noticed_by(Invariant.PAUSED)
def a_pause_is_ignored(patch: Patch) -> None:
    """A paused group computes its target."""

    def is_awaited(step: StepBuilder) -> bool:
        return is_target_awaited(step) or step.consumer.assignment_epoch < step.consumer.epoch

    patch.setattr("coordinator.consumer.target.is_target_awaited", is_awaited)


@noticed_by(Invariant.LIVENESS)
def a_pause_never_ends(patch: Patch) -> None:
    """A group is paused by whatever an operator says."""

    def overrides(
        _policy: RollPolicy, native_count: int, configured: GroupConfig
    ) -> Mapping[str, int]:
        return overrides_for(RollPolicy.PAUSE, native_count, configured)

    patch.setattr("coordinator.handlers.roll_policy.overrides_for", overrides)
