"""Hunts for the planted bugs, seed after seed.

`python -m tests.coordinator.simulation.planted_bugs.hunt` prints where each of them was found, as
the rows of the table in `gateway/docs/simulator.md`; with the names of some, for these only, and
how their transcripts end.
"""

import sys

import pytest

from coordinator.simulation.run import Outcome, simulate
from tests.coordinator.simulation.planted_bugs import (
    invariants_1_to_5,
    invariants_6_to_10,
    other_checks,
    surroundings,
)
from tests.coordinator.simulation.planted_bugs.bug import Bug

SEEDS_MAX = 200
STORY_LINES = 30

BUGS = [
    bug
    for module in (invariants_1_to_5, invariants_6_to_10, other_checks, surroundings)
    for bug in vars(module).values()
    if isinstance(bug, Bug)
]


def hunt(bug: Bug, *, first_seed: int = 0, tail_lines: int = STORY_LINES) -> Outcome | None:
    """The first run that breaks with this bug, `first_seed` being played first; None if no seed
    brings it out."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        seeds = dict.fromkeys((first_seed, *range(SEEDS_MAX)))
        outcomes = (simulate(seed, tail_lines=tail_lines) for seed in seeds)
        return next((outcome for outcome in outcomes if outcome.invariant), None)


def main(names: list[str]) -> None:
    """Hunt, and print."""
    for bug in BUGS:
        if names and bug.name not in names:
            continue
        found = hunt(bug)
        where = f"{found.invariant} | {found.seed}" if found is not None else "nothing |"
        print(f"| `{bug.name}` | {bug.what} | {where} |", flush=True)
        if found is not None and names:
            print(*found.transcript, "", found.detail, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
