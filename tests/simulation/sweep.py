"""Plays seeds of the simulator on all processors and reports the outcome.

The first seed that breaks an invariant ends the sweep, which prints its transcript and the command
that replays it. So does a seed that does not end: `World` limits the calls of a run, and this
module the time and the memory that a call may take.
"""

import gc
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Never

from tests.simulation.invariants import Invariant
from tests.simulation.run import Outcome, replay_command, simulate
from tests.support.garbage import OBJECTS_PER_COLLECTION

WORKERS_MAX = 16
SEEDS_PER_TASK = 4
SEED_CPU_S_MAX = 60
"""An ordinary run takes less than a second."""
WORKER_MEMORY_MIB_MAX = 2_048
"""What a worker process may add to its address space. An ordinary run needs a few megabytes."""
PROGRESS_INTERVAL_S = 30


def sweep(first_seed: int, seeds: int) -> Generator[Outcome, None, None]:
    """The outcomes in the order of the seeds. Closing the generator stops the sweep."""
    workers = min(len(os.sched_getaffinity(0)), WORKERS_MAX, seeds)
    pool = ProcessPoolExecutor(workers, initializer=_begin_worker)
    try:
        chunk = min(SEEDS_PER_TASK, -(-seeds // workers))
        yield from pool.map(_play, range(first_seed, first_seed + seeds), chunksize=chunk)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    # Ctrl-C reaches all processes, but only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGVTALRM, _end_run)
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    memory_max = _address_space() + WORKER_MEMORY_MIB_MAX * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (memory_max, memory_max))


def _address_space() -> int:
    """The size of this process's address space, in bytes. A worker begins with all of its
    parent's."""
    pages, *_ = Path("/proc/self/statm").read_text("ascii").split()
    return int(pages) * resource.getpagesize()


def _end_run(*_signal: object) -> Never:
    raise TimeoutError(f"the run has not ended after {SEED_CPU_S_MAX} s of processor time")


def _play(seed: int) -> Outcome:
    signal.setitimer(signal.ITIMER_VIRTUAL, SEED_CPU_S_MAX)
    try:
        return simulate(seed)
    except MemoryError:
        pass  # the traceback keeps the run and its memory alive
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    reason = f"it needs more than {WORKER_MEMORY_MIB_MAX:,} MiB of memory"
    return Outcome(seed=seed, invariant=str(Invariant.ENDS), detail=reason)


def run(first_seed: int, seeds: int) -> tuple[bool, str]:
    """Play the seeds. Returns whether none broke, and the report. A long sweep prints its progress
    to stderr."""
    totals: Counter[str] = Counter()
    outcomes = sweep(first_seed, seeds)
    cpu_s = _cpu_s_of_workers()
    played, told_at = 0, time.monotonic()
    try:
        for played, outcome in enumerate(outcomes, start=1):
            totals.update(outcome.counts)
            if outcome.invariant is not None:
                outcomes.close()
                return False, failure(outcome)
            if time.monotonic() - told_at >= PROGRESS_INTERVAL_S:
                told_at = time.monotonic()
                sys.stderr.write(f"{played:,} of {seeds:,} seeds\n")
    except BrokenProcessPool:
        return False, f"A worker process was killed at seed {first_seed + played} or soon after it."
    counts = ", ".join(f"{totals[name]:,} {name}" for name in sorted(totals))
    last_seed = first_seed + seeds - 1
    speed = seeds / (_cpu_s_of_workers() - cpu_s)
    return True, (
        f"Nothing broke in {seeds} seeds, {first_seed} to {last_seed}.\n{counts}\n"
        f"{speed:.1f} seeds per second of processor time"
    )


def _cpu_s_of_workers() -> float:
    """The processor time of all worker processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
