"""What one seed of the simulator becomes in a table: a row, computed where Spark wants it.

Owns the columns. Must not know Spark's session, or how seeds are spread.
"""

import traceback
from collections.abc import Callable
from typing import NamedTuple

from coordinator.simulation.invariants import Invariant
from coordinator.simulation.run import Outcome, simulate

DETAIL_LENGTH_MAX = 2_000
"""Characters; the replay tells it all."""


class SeedRow(NamedTuple):
    """One seed; what is counted ends with its first violation.

    `events` the engine handled: requests of clients, deadlines, ends of commits. `rebalances` are
    targets computed and classic generations begun, `moves` the times that a partition came to
    another owner than its last one. `convergence_ms`, in simulated time and to the second, is from
    the end of all faults to everybody's rest, None if that never came. `violations` is 0 or 1:
    then `invariant` is the one that broke, and `detail` what was seen of it.
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
"""The same for Spark."""


def row_of(seed: int, play: Callable[[int], Outcome] = simulate) -> SeedRow:
    """Play it. An error of the simulator itself is a violation like any other."""
    try:
        outcome = play(seed)
    except Exception:  # one seed out of a million must not end the other ones
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
