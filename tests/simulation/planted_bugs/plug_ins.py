"""Bugs in how targets of plug-ins are installed."""

from coordinator.consumer import external_assignors
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by


@noticed_by(Invariant.TARGETS, Invariant.INDEXES, Invariant.SINGLE_HOLDER, Invariant.LIVENESS)
def a_wrong_target_is_installed(patch: Patch) -> None:
    """Nobody checks what a plug-in computes."""
    patch.setattr(external_assignors, "flaw_in", lambda *_: "")


@noticed_by(Invariant.LIVENESS)
def a_failed_computation_is_final(patch: Patch) -> None:
    """After a plug-in failed, the group gets no target any more."""
    patch.setattr(external_assignors, "RETRY_MS", 1_000_000_000)
