"""Rows of a benchmark: the same work by several servers in turn, and the ratios between them.

A row's figures are medians over its rounds. A ratio is groupferry's figure divided by a peer's: for
processor time and memory, the median over rounds in which both worked one after the other; for wall
time, of the best round of each, because the machine's other load can only add to it.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.processes import Load, Requests, Sample, Server, load

SUBJECT = "groupferry"
DIRECT = "direct"
"""The arm without a relay between. It shows what the others add, and makes no ratio."""
ROUND_MIN = 100
REGRESSION = 2.0
"""A ratio this many times its last committed value is a regression."""
UNSTEADY = ("Kafka",)
"""Peers whose ratios cannot show a regression: Java compiles while it is measured."""
_RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How much is measured."""

    name: str
    rounds: int
    work: float
    """The share of a full round's requests."""


FULL = Form(name="full", rounds=5, work=1.0)
SHORT = Form(name="short", rounds=5, work=0.06)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One of the servers that do the same work."""

    name: str
    server: Server
    requests: Requests
    port: int | None = None
    """Where its clients connect, if not at the server's own port."""


@dataclass(slots=True)
class Results:
    """Figures and ratios of one run, by name."""

    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """Keyed by row, connections and arm."""
    ratios: dict[str, float] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    only: Sequence[str] = ()
    """The name of a measured row contains one of these, if there are any."""

    def wants(self, row: str) -> bool:
        """Whether a row of this name is to be measured."""
        return not self.only or any(text in row for text in self.only)

    def record(self, row: str, samples: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
        """Take the samples of a row by arm, and print their medians and ratios."""
        for arm, measured in samples.items():
            medians = {name: statistics.median(s[name] for s in measured) for name in measured[0]}
            self.figures[f"{row}, {arm}"] = medians
            say(f"{row}, {arm}: " + ", ".join(f"{k} {v:,.4g}" for k, v in medians.items()))
        for arm, measured in samples.items():
            if arm in (SUBJECT, DIRECT) or SUBJECT not in samples:
                continue
            pairs = [*zip(samples[SUBJECT], measured, strict=True)]
            for name in _COSTS:
                ratios = [a[name] / b[name] for a, b in pairs if b.get(name, 0) > 0]
                if ratios:
                    self.ratios[ratio_name(row, name, arm)] = statistics.median(ratios)
            for name in _WALL & measured[0].keys():
                best, best_of_peer = (
                    min(s[name] for s in side) for side in zip(*pairs, strict=True)
                )
                self.ratios[ratio_name(row, name, arm)] = best / best_of_peer

    def skip(self, what: str) -> None:
        """Note a peer that is missing."""
        self.skipped.append(what)
        say(f"skipped: {what}")


_COSTS = {"cpu_us": "CPU", "cpu_s": "CPU", "cpu_s_per_gb": "CPU", "kib": "memory"}
_WALL = {"wall_us", "wall_s", "wall_s_per_gb"}
"""The figures that make ratios. More is worse."""


def ratio_name(row: str, figure: str, arm: str) -> str:
    """The name of the ratio between groupferry's figure and that of a peer."""
    return f"{row}: {_COSTS.get(figure, 'wall')}, {SUBJECT} / {arm}"


def compare(
    results: Results,
    row: str,
    arms: Sequence[Arm],
    form: Form,
    *,
    connections: int,
    count: int,
    warm_up: int | None = None,
    figures_of: Callable[[Sample], dict[str, float]] = asdict,
) -> None:
    """Measure a row. `count` is the number of requests of a full round, and `warm_up` how many are
    sent before the first round: as many by default."""
    if not results.wants(row):
        return
    count = max(int(count * form.work), connections, ROUND_MIN)
    with ExitStack() as stack:
        loads: dict[str, Load] = {
            arm.name: stack.enter_context(load(arm.server, arm.requests, connections, arm.port))
            for arm in arms
        }
        for client_load in loads.values():
            client_load.measure(warm_up or count)
        samples: dict[str, list[dict[str, float]]] = {name: [] for name in loads}
        for _ in range(form.rounds):
            for name, client_load in loads.items():
                samples[name].append(figures_of(client_load.measure(count)))
    for name, measured in samples.items():
        if DIRECT in samples and name != DIRECT:
            for ours, direct in zip(measured, samples[DIRECT], strict=True):
                for figure in ("median_us", "p99_us"):
                    if figure in ours:
                        ours[f"added_{figure}"] = ours[figure] - direct[figure]
    plural = "s" if connections > 1 else ""
    results.record(f"{row}, {connections} connection{plural}", samples)


def main_of(name: str, measure: Callable[[Results, Form], None]) -> None:
    """Run a benchmark as a command: print its rows, write them to a file, and compare the ratios
    with those last committed. A regression ends with status 1."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="fewer rows, rounds and requests")
    parser.add_argument(
        "--keep", action="store_true", help="write to the committed file, not next to it"
    )
    parser.add_argument(
        "--only", metavar="TEXT", action="append", default=[], help="rows with TEXT in their name"
    )
    options = parser.parse_args()
    if options.only and options.keep:
        parser.error("--keep needs all rows")
    form = SHORT if options.short else FULL
    results = Results(only=options.only)
    measure(results, form)
    committed = _RESULTS / f"{name}-{form.name}.json"
    before = json.loads(committed.read_text())["ratios"] if committed.exists() else {}
    written = committed if options.keep else committed.with_suffix(".latest.json")
    written.write_text(json.dumps({"machine": machine(), **asdict(results)}, indent=2) + "\n")
    regressions = print_ratios(results.ratios, before)
    if regressions:
        sys.exit(f"{len(regressions)} ratios are {REGRESSION:g} times their last committed value")


def print_ratios(ratios: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Print the ratios next to the earlier ones, and return the names of those that regressed."""
    regressions = []
    for key, ratio in ratios.items():
        line = f"{key}: {ratio:.2f}"
        if key in before:
            line += f" (before: {before[key]:.2f})"
            if ratio >= REGRESSION * before[key] and not key.endswith(UNSTEADY):
                regressions.append(key)
                line += " REGRESSION"
        say(line)
    return regressions


def machine() -> dict[str, object]:
    """Where figures come from."""
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def say(line: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
