"""Moves of a group at rest: it is adopted and released in turn, and in most moves one thing happens
at a random step. After each move the group must settle again.
"""

from tests.simulation.invariants import Invariant, require
from tests.simulation.settling import Scene, come_to_rest

MOVES = 4
UNDISTURBED_SHARE = 0.3


def move_about(scene: Scene) -> None:
    """Move the group there and back. Raises BrokenInvariantError."""
    if not scene.plan.has_moves:
        return
    for _ in range(MOVES):
        is_disturbed = not scene.world.chance(UNDISTURBED_SHARE)
        was_hosted = scene.whereabouts.is_hosted
        may_be_late = scene.cluster.group.has_pending_ids
        outcomes = scene.driver.process.outcomes = []
        scene.random_actions.move(is_disturbed=is_disturbed)
        come_to_rest(scene)
        if outcomes and not is_disturbed:
            outcome = outcomes[-1]
            is_hosted = scene.whereabouts.is_hosted
            has_emptied = not (is_hosted or scene.cluster.group.has_other_members)
            is_done = has_emptied or is_hosted is not was_hosted
            require(is_done or bool(outcome.reasons), Invariant.LIVENESS, outcome)
            is_undone = any(reason.startswith("undone") for reason in outcome.reasons)
            require(may_be_late or not is_undone, Invariant.LIVENESS, outcome)
