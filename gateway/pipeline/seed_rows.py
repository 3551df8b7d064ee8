"""The result of one simulated seed as a table row. Runs on Spark's executors."""

import traceback
from collections.abc import Callable
from typing import NamedTuple

from gateway.simulation.invariants import Invariant
from gateway.simulation.run import Outcome, simulate

DETAIL_LENGTH_MAX = 2_000
"""Characters kept of a violation; the replay shows everything."""


class SeedRow(NamedTuple):
    """One seed. Counts end with its first violation.

    `events` are those that the engine handled: requests of clients, deadlines, ends of commits.
    `rebalances` counts computed targets and classic generations, `moves` how often a partition got
    a different owner. `convergence_ms` is simulated time, to the second, from the end of all faults
    until all members rest; None if they never do. `violations` is 0 or 1; with 1, `invariant` names
    the invariant that broke, and `detail` describes how.
    """

    seed: int
    events: int
    rebalances: int
    moves: int
    convergence_ms: int | None
    violations: int
    invariant: str | None
    detail: str | None


SCHEMA = (
    "seed long, events long, rebalances long, moves long, convergence_ms long,"
    " violations int, invariant string, detail string"
)
"""The columns of SeedRow as a Spark schema."""


def row_of(seed: int, play: Callable[[int], Outcome] = simulate) -> SeedRow:
    """Play a seed. An error of the simulator itself counts as a violation."""
    try:
        outcome = play(seed)
    except Exception:  # one seed out of a million must not end the others
        outcome = Outcome(
            seed=seed, invariant=str(Invariant.NO_ERROR), detail=traceback.format_exc()
        )
    counts, is_broken = outcome.counts, outcome.invariant is not None
    return SeedRow(
        seed=seed,
        events=counts.get("events", 0),
        rebalances=counts.get("rebalances", 0),
        moves=counts.get("moves", 0),
        convergence_ms=counts.get("convergence ms"),
        violations=int(is_broken),
        invariant=outcome.invariant,
        detail=outcome.detail[:DETAIL_LENGTH_MAX] if is_broken else None,
    )
