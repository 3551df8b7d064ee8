"""Plants small bugs in the engine and the hosting code, and tells which ones no test notices.

`python -m tests.mutation [--seed N] [--mutants N] [--minutes M] [--jobs N] [--only PATH]`

One run of the tests finds out which of them pass, and call which function. Each mutant of a seeded
sample is then tried, in a copy of the repository, by the tests that call the function it is in,
until one fails. `gateway/docs/mutation.md` says what became of the survivors.
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.calls import CALLS
from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parent.parent.parent
MUTATED = ("coordinator", "gateway/hosting", "gateway/groups", "gateway/requests")
TESTS = tuple(f"tests/{each}" for each in MUTATED)
NOT_RUN = ("-m=not kafka and not spark and not long",)
"""The tests that are fast enough to run hundreds of times."""

TESTS_S_MAX = 20.0
"""The fastest tests that call a function, up to this time, those of its own file first."""
START_S_MAX = 30.0
"""Time for an interpreter and its imports on a busy machine. Tests that take three times their
usual time plus this are in an endless loop."""
LOOK_INTERVAL_S = 0.1

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
        if mutant.function is None:  # no test calls code outside of functions
            callers.update(*(tests for key, tests in self.callers.items() if key.startswith(here)))
            callers.update(test for test in self.lasted_s if test.startswith(own))
        chosen, sum_s = list[str](), 0.0
        for test in sorted(callers, key=lambda t: (not t.startswith(own), self.lasted_s[t], t)):
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
    mutants = [each for each in _all_mutants() if each.file.startswith(options.only)]
    sample = random.Random(options.seed).sample(mutants, min(options.mutants, len(mutants)))
    _say(f"a sample of {len(sample)} of {len(mutants)} mutants, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copies = [_copy(Path(folder, str(number))) for number in range(options.jobs)]
        coverage = _coverage(copies[0], options.only)
        free = queue.SimpleQueue[Path]()
        for each in copies:
            free.put(each)

        def survives(mutant: Mutant) -> bool | None:
            """Returns None if the run has ended."""
            if _interrupted.is_set() or time.monotonic() > until_s:
                return None
            copy = free.get()
            try:
                has_survived = _survives(mutant, coverage, copy)
            finally:
                free.put(copy)
            if _interrupted.is_set():
                return None
            if has_survived:
                nobody = "" if coverage.tests_of(mutant) else "  (no test calls it)"
                _say(f"survived: {mutant}{nobody}")
            return has_survived

        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(survives, sample))
    tried, survivors = len(results) - results.count(None), results.count(True)
    _say(f"{tried} of {len(sample)} tried, {tried - survivors} noticed, {survivors} survived")
    return 128 + signal.SIGINT if _interrupted.is_set() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--mutants", type=int, default=250, help="how many to try")
    parser.add_argument("--minutes", type=float, default=20, help="when to end, tried or not")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="mutants of files whose path begins so")
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


def _coverage(copy: Path, only: str) -> Coverage:
    calls = copy / "calls.json"
    tests = [each for each in TESTS if f"tests/{only}".startswith(each)] or TESTS
    _, output = _pytest(copy, "-p", "tests.mutation.calls", *NOT_RUN, *tests, calls=calls)
    if _interrupted.is_set():
        return Coverage({}, {})
    if not calls.exists():
        sys.exit(f"the tests do not run:\n{output}")
    return Coverage(**json.loads(calls.read_text()))


def _survives(mutant: Mutant, coverage: Coverage, copy: Path) -> bool:
    tests = coverage.tests_of(mutant)
    if not tests:
        return True
    chosen = copy / "chosen-tests"
    chosen.write_text("\n".join(tests))
    timeout_s = START_S_MAX + 3 * sum(coverage.lasted_s[test] for test in tests)
    path = copy / mutant.file
    source = path.read_bytes()
    path.write_bytes(mutant.applied_to(source))
    status, _ = _pytest(copy, "-x", *NOT_RUN, f"@{chosen}", timeout_s=timeout_s)
    path.write_bytes(source)
    return status == 0


def _pytest(
    copy: Path, *arguments: str, timeout_s: float = math.inf, calls: Path | None = None
) -> tuple[int, str]:
    """Run in a process of its own, without bytecode, because a mutant's would survive it.

    Returns the exit status and the output. Tests are killed when their time is over or the run is
    interrupted. Ctrl-C does not reach them, or they would seem to have failed.
    """
    until_s = time.monotonic() + timeout_s
    with (copy / "pytest-output").open("w+", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
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
