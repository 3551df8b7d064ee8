"""`groupferry simulate`: plays seeds of the simulator on all processors and reports the outcome.

The first seed that breaks an invariant ends the sweep, which prints its transcript and the command
that replays it.
"""

import os
import signal
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor

from coordinator.simulation.run import Outcome, simulate

WORKERS_MAX = 16
SEEDS_PER_TASK = 4


def sweep(first_seed: int, seeds: int) -> Generator[Outcome, None, None]:
    """The outcomes in the order of the seeds. Closing the generator stops the sweep."""
    workers = min(len(os.sched_getaffinity(0)), WORKERS_MAX, seeds)
    # Ctrl-C reaches all processes, but only this one handles it.
    pool = ProcessPoolExecutor(
        workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )
    try:
        chunk = min(SEEDS_PER_TASK, -(-seeds // workers))
        yield from pool.map(simulate, range(first_seed, first_seed + seeds), chunksize=chunk)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def run(first_seed: int, seeds: int) -> tuple[bool, str]:
    """Play the seeds. Returns whether none broke, and the report."""
    totals: Counter[str] = Counter()
    outcomes = sweep(first_seed, seeds)
    for outcome in outcomes:
        totals.update(outcome.counts)
        if outcome.invariant is not None:
            outcomes.close()
            return False, failure(outcome)
    told = ", ".join(f"{totals[name]:,} {name}" for name in sorted(totals))
    last_seed = first_seed + seeds - 1
    return True, f"Nothing broke in {seeds} seeds, {first_seed} to {last_seed}.\n{told}"


def failure(outcome: Outcome) -> str:
    """The end of the transcript, the broken invariant, and the command that replays it."""
    return "\n".join(
        (
            *outcome.transcript,
            "",
            f"Seed {outcome.seed} breaks invariant {outcome.invariant}",
            outcome.detail,
            "",
            f"To replay it: {replay_command(outcome.seed)}",
        )
    )


def replay_command(seed: int) -> str:
    """The command that plays exactly this seed again."""
    return f"groupferry simulate --seeds 1 --first-seed {seed}"
