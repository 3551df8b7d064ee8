"""Compares the pipeline's tables with the simulator's truth: `python -m tests.truth --help`."""

import argparse
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from tests.truth.checks import problems

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
    began, broken = time.monotonic(), 0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for seed, found in zip(
            seeds, pool.map(_checked, seeds, chunksize=SEEDS_PER_TASK), strict=True
        ):
            broken += bool(found)
            if found and broken <= TOLD_MAX:
                print(f"seed {seed}: {len(found)} contradictions, the first: {found[0][:TEXT_MAX]}")
    took_s = time.monotonic() - began
    print(f"{broken} of {len(seeds):,} seeds contradict the simulator ({took_s:.0f} s)")
    return int(broken > 0)


def _checked(seed: int) -> list[str]:
    try:
        return problems(seed)
    except Exception:  # one seed must not end the others
        return [traceback.format_exc()]


if __name__ == "__main__":
    sys.exit(main())
