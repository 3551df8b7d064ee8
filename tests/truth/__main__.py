"""Compares the pipeline's tables with the simulator's truth: `python -m tests.truth --help`."""

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.support.simulated_events import simulated_with_excuses
from tests.truth.checks import problems
from tests.truth.moves import findings

SEEDS_PER_TASK = 4
TOLD_MAX = 20
TEXT_MAX = 500
"""Characters of one problem."""


def main() -> int:
    """Compare the seeds. Returns 1 if one contradicts the simulator."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    began, broken, unsure = time.monotonic(), 0, Counter[str]()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        checked = pool.map(_check, seeds, chunksize=SEEDS_PER_TASK)
        for seed, (contradictions, cause) in zip(seeds, checked, strict=True):
            broken += bool(contradictions)
            unsure.update(() if cause is None else (cause,))
            if contradictions and broken <= TOLD_MAX:
                first = contradictions[0][:TEXT_MAX]
                print(f"seed {seed}: {len(contradictions)} contradictions, the first: {first}")
    took_s, cpu_s = time.monotonic() - began, sum(os.times()[:4])
    print(
        f"{broken} of {len(seeds):,} seeds contradict the simulator ({took_s:.0f} s,"
        f" {len(seeds) / cpu_s:.1f} seeds per CPU second)"
    )
    share = unsure.total() / len(seeds)
    print(f"{share:.1%} are unsure after a move between gateways with clocks apart, of a group")
    for cause, count in unsure.most_common():
        print(f"  {count / len(seeds):.1%} {cause}")
    return int(broken > 0)


def _check(seed: int) -> tuple[list[str], str | None]:
    try:
        steps, excused = simulated_with_excuses(seed)
        wrong, cause = findings(seed, steps, excused)
        return [*problems(steps, excused), *wrong], cause
    except Exception:  # one seed must not end the others
        return [traceback.format_exc()], None


if __name__ == "__main__":
    sys.exit(main())
