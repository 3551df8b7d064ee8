"""Hunts for the planted bugs, seed after seed.

`python -m tests.simulation.planted_bugs.hunt` prints the seed that found each bug, as
the rows of the table in `tests/simulation/README.md`. With the names of bugs as arguments it hunts
only for these, and also prints the ends of their transcripts.
"""

import sys

import pytest

from tests.simulation.planted_bugs import (
    client_side,
    graces,
    hosting,
    invariants_1_to_5,
    invariants_6_to_10,
    other_checks,
    plug_ins,
    rolls,
    sparing,
    surroundings,
)
from tests.simulation.planted_bugs.bug import Bug
from tests.simulation.run import Outcome, simulate

SEEDS_MAX = 200
TAIL_LINES = 30

BUGS = [
    bug
    for module in (
        invariants_1_to_5,
        invariants_6_to_10,
        other_checks,
        graces,
        rolls,
        sparing,
        plug_ins,
        client_side,
        surroundings,
        hosting,
    )
    for bug in vars(module).values()
    if isinstance(bug, Bug)
]


def hunt(bug: Bug, *, first_seed: int = 0, tail_lines: int = TAIL_LINES) -> Outcome | None:
    """The first run that breaks an invariant with this bug, or None. Plays `first_seed` first."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        seeds = dict.fromkeys((first_seed, *range(SEEDS_MAX)))
        outcomes = (simulate(seed, tail_lines=tail_lines) for seed in seeds)
        return next((outcome for outcome in outcomes if outcome.invariant), None)


def main(names: list[str]) -> None:
    """Hunt for the bugs and print the table."""
    for bug in BUGS:
        if names and bug.name not in names:
            continue
        seeds = hunt(bug)
        where = f"{seeds.invariant} | {seeds.seed}" if seeds is not None else "nothing |"
        print(f"| `{bug.name}` | {bug.what} | {where} |", flush=True)
        if seeds is not None and names:
            print(*seeds.transcript, "", seeds.detail, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
