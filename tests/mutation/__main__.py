"""Plants small bugs in the engine and the hosting machine, and lists those that nothing notices.

`python -m tests.mutation [--seed N] [--mutants N] [--minutes M] [--jobs N] [--only PATH ...]`

One run of the tests finds out which of them pass, and call which function. Each mutant of a seeded
sample is then tried, in a copy of the repository, by the tests that call the function it is in, by
seeds of the simulator and by small worlds of the explorer, until one fails. `harmless.toml` lists
the survivors that change nothing.
"""

import argparse
import json
import math
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.calls import CALLS
from tests.mutation.harmless import harmless, key_of
from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parent.parent.parent
MUTATED = ("coordinator", "gateway/hosting", "gateway/groups", "gateway/requests")
PLAYED = ("coordinator", "gateway/hosting")
"""The engine and the hosting machine, which simulator and explorer play."""
TESTS = tuple(f"tests/{path}" for path in MUTATED)
NOT_RUN = ("-m=not kafka and not spark and not simulation and not long",)
"""The tests that are fast enough to run hundreds of times."""
WORLDS = ("switch", "anchor", "stray")
"""Small worlds that are exhausted within seconds."""
PLAY_S_MAX = 900.0
"""Time for all seeds, or for a world, on a busy machine. Without a mutant they take a tenth."""

TESTS_S_MAX = 20.0
"""The fastest tests that call a function, up to this time, those of its own file first."""
START_S_MAX = 30.0
"""Time for an interpreter and its imports on a busy machine. Tests that take three times their
usual time plus this are in an endless loop."""
LOOK_INTERVAL_S = 0.1

FATES = BY_TESTS, BY_SEEDS, BY_WORLDS, HARMLESS, SURVIVED = (
    "noticed by tests",
    "by the simulator",
    "by the explorer",
    "harmless",
    "survived",
)

_interrupted = threading.Event()


@dataclass(frozen=True, slots=True)
class Coverage:
    """The passing tests that call the function at FILE:LINE, and the duration of each."""

    callers: Mapping[str, Sequence[str]]
    lasted_s: Mapping[str, float]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests in their order of execution. Empty if none calls the function."""
        here = f"{mutant.file}:"
        package, _, name = mutant.file.rpartition("/")
        own = f"tests/{package}/test_{name}::"
        callers = set(self.callers.get(f"{here}{mutant.function}", ()))
        tests = callers
        if mutant.function is None:  # no test calls code outside of functions: any may depend on it
            callers.update(*(tests for key, tests in self.callers.items() if key.startswith(here)))
            tests = set(self.lasted_s)

        def distance(test: str) -> tuple[bool, bool, float, str]:
            return not test.startswith(own), test not in callers, self.lasted_s[test], test

        chosen, sum_s = list[str](), 0.0
        for test in sorted(tests, key=distance):
            sum_s += self.lasted_s[test]
            if chosen and sum_s > TESTS_S_MAX:
                break
            chosen.append(test)
        return chosen


def main() -> int:
    """Print the survivors. Ctrl-C ends the run with what it has tried."""
    options = _options()
    signal.signal(signal.SIGINT, lambda *_: _interrupted.set())
    until_s = time.monotonic() + options.minutes * 60
    only = tuple(options.only)
    mutants = [mutant for mutant in _all_mutants() if mutant.file.startswith(only)]
    sample = random.Random(options.seed).sample(mutants, min(options.mutants, len(mutants)))
    _say(f"a sample of {len(sample)} of {len(mutants)} mutants, seed {options.seed}")
    listed = harmless()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copies = [_copy(Path(folder, str(number))) for number in range(options.jobs)]
        coverage = _coverage(copies[0], only)
        free = queue.SimpleQueue[Path]()
        for free_copy in copies:
            free.put(free_copy)

        def fate_of(mutant: Mutant) -> str | None:
            """Returns None if the run has ended."""
            if key_of(mutant) in listed:
                return HARMLESS
            if _interrupted.is_set() or time.monotonic() > until_s:
                return None
            copy = free.get()
            try:
                fate = _fate(mutant, coverage, copy, seeds=options.seeds)
            finally:
                free.put(copy)
            if _interrupted.is_set():
                return None
            if fate == SURVIVED:
                nobody = "" if coverage.tests_of(mutant) else "  (no test calls it)"
                _say(f"survived: {mutant}{nobody}")
            return fate

        with ThreadPoolExecutor(options.jobs) as pool:
            fates = Counter(pool.map(fate_of, sample))
    del fates[None]
    _say(f"{fates.total()} of {len(sample)} tried: {', '.join(f'{fates[f]} {f}' for f in FATES)}")
    return 128 + signal.SIGINT if _interrupted.is_set() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--mutants", type=int, default=250, help="how many to try")
    parser.add_argument("--minutes", type=float, default=20, help="when to end, tried or not")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--only", nargs="+", default=PLAYED, help="mutants of files whose paths begin so"
    )
    parser.add_argument(
        "--seeds", type=int, default=300, help="of the simulator; with 0, only tests are run"
    )
    return parser.parse_args()


def _all_mutants() -> Iterator[Mutant]:
    for folder in MUTATED:
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            yield from mutants_of(file, path.read_bytes())


def _copy(folder: Path) -> Path:
    """The files that git tracks, in their present state."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _coverage(copy: Path, only: Sequence[str]) -> Coverage:
    calls = copy / "calls.json"
    tests = [t for t in TESTS if any(f"tests/{path}".startswith(t) for path in only)] or TESTS
    _, output = _pytest(copy, "-p", "tests.mutation.calls", *NOT_RUN, *tests, calls=calls)
    if _interrupted.is_set():
        return Coverage({}, {})
    if not calls.exists():
        sys.exit(f"the tests do not run:\n{output}")
    return Coverage(**json.loads(calls.read_text()))


def _fate(mutant: Mutant, coverage: Coverage, copy: Path, *, seeds: int) -> str:
    """Who notices the mutant first."""
    path = copy / mutant.file
    source = path.read_bytes()
    path.write_bytes(mutant.applied_to(source))
    try:
        if not _pass(coverage.tests_of(mutant), coverage, copy):
            return BY_TESTS
        if seeds and mutant.file.startswith(PLAYED):
            if not _plays(copy, "tests.simulation", "--seeds", str(seeds)):
                return BY_SEEDS
            if not all(_plays(copy, "tests.simulation.explorer", world) for world in WORLDS):
                return BY_WORLDS
        return SURVIVED
    finally:
        path.write_bytes(source)


def _pass(tests: Sequence[str], coverage: Coverage, copy: Path) -> bool:
    if not tests:
        return True
    chosen = copy / "chosen-tests"
    chosen.write_text("\n".join(tests))
    timeout_s = START_S_MAX + 3 * sum(coverage.lasted_s[test] for test in tests)
    status, _ = _pytest(copy, "-x", *NOT_RUN, f"@{chosen}", timeout_s=timeout_s)
    return status == 0


def _plays(copy: Path, *arguments: str) -> bool:
    status, _ = _run(copy, *arguments, timeout_s=PLAY_S_MAX)
    return status == 0


def _pytest(
    copy: Path, *arguments: str, timeout_s: float = math.inf, calls: Path | None = None
) -> tuple[int, str]:
    options = ("-q", "-p", "no:cacheprovider")
    return _run(copy, "pytest", *options, *arguments, timeout_s=timeout_s, calls=calls)


def _run(
    copy: Path, module: str, *arguments: str, timeout_s: float, calls: Path | None = None
) -> tuple[int, str]:
    """Run in a process of its own, without bytecode, because a mutant's would survive it.

    Returns the exit status and the output. The process is killed when its time is over or the run
    is interrupted. Ctrl-C does not reach it, or it would seem to have failed.
    """
    until_s = time.monotonic() + timeout_s
    with (copy / "output").open("w+", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=copy,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(copy), str(copy / "codecs"))),
                "PYTHONDONTWRITEBYTECODE": "" if calls else "1",
                CALLS: str(calls or ""),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        while process.poll() is None:
            if _interrupted.wait(LOOK_INTERVAL_S) or time.monotonic() > until_s:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return process.returncode, output.read()


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
