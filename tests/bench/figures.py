"""Write `gateway/docs/figures.md` from the committed results: its summary, pictures and tables.

python -m tests.bench.figures
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.bars import BarRow, draw_bars
from tests.bench.comparison import DIRECT, SUBJECT, ratio_name

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "gateway" / "docs" / "figures.md"
COST_PICTURE, LATENCY_PICTURE = PAGE.with_name("costs.svg"), PAGE.with_name("latencies.svg")
SUMMARY_MARK = "<!-- The summary is generated: python -m tests.bench.figures -->\n"
SUMMARY_END = "<!-- The end of the summary -->\n"
MARK = "<!-- From here on generated: python -m tests.bench.figures -->\n"
TITLES = {
    "group_calls": "Group requests",
    "relay": "Relay",
    "tls": "TLS with clients",
}
UNITS = {
    "cpu_us": "CPU, us",
    "wall_us": "wall, us",
    "added_median_us": "added median, us",
    "added_p99_us": "added p99, us",
    "worst_p99_us": "worst p99, us",
    "cpu_s": "CPU, s",
    "wall_s": "wall, s",
    "cpu_s_per_gb": "CPU, s/GB",
    "wall_s_per_gb": "wall, s/GB",
    "kib": "memory, KiB",
}
"""The figures that the page shows. Less is better in all of them."""
LATENCIES = ("added_median_us", "added_p99_us", "worst_p99_us")
COLOURS = {SUBJECT: "#2f855a", "Kafka": "#8a8f98", "HAProxy": "#8a8f98", "C relay": "#b7bcc4"}

Results = Mapping[str, Any]
"""The results of one benchmark, as its file has them."""


class SummaryLine(NamedTuple):
    """A measurement that says how large a gateway has to be."""

    what: str
    results: str
    row: str
    peer: str
    figure: str
    sizing: Callable[[float], str]
    """What groupferry's figure means."""


def _requests(figure: float) -> str:
    return f"one core answers {1e6 / figure:,.0f} per second"


def _bytes(figure: float) -> str:
    return f"one core passes {1 / figure:,.1f} GB per second"


def _latency(figure: float) -> str:
    return f"a client waits {figure:,.0f} µs longer than at its broker"


def _memory(figure: float) -> str:
    return f"10,000 take {figure * 10_000 / 1024:,.0f} MiB"


def _join(figure: float) -> str:
    return f"{figure:,.2f} s of one core until all have their partitions"


SUMMARY = (
    SummaryLine(
        "a short request that passes, 100 connections",
        "relay",
        "Round trip, 100 connections",
        "HAProxy",
        "cpu_us",
        _requests,
    ),
    SummaryLine(
        "the same on one connection, latency",
        "relay",
        "Round trip on one core, 1 connection",
        "HAProxy",
        "added_median_us",
        _latency,
    ),
    SummaryLine(
        "Fetch of 64 KiB", "relay", "Fetch 64 KiB, 4 connections", "HAProxy", "cpu_s_per_gb", _bytes
    ),
    SummaryLine(
        "Produce of 64 KiB",
        "relay",
        "Produce 64 KiB, 4 connections",
        "HAProxy",
        "cpu_s_per_gb",
        _bytes,
    ),
    SummaryLine(
        "Fetch of 64 KiB, TLS with clients",
        "tls",
        "Fetch 64 KiB over TLS, 4 connections",
        "HAProxy",
        "cpu_s_per_gb",
        _bytes,
    ),
    SummaryLine(
        "an idle connection", "relay", "Idle connection of 1000", "HAProxy", "kib", _memory
    ),
    SummaryLine(
        "Heartbeat, 100 connections",
        "group_calls",
        "Heartbeat, 100 connections",
        "Kafka",
        "cpu_us",
        _requests,
    ),
    SummaryLine(
        "ConsumerGroupHeartbeat, 100 connections",
        "group_calls",
        "ConsumerGroupHeartbeat, 100 connections",
        "Kafka",
        "cpu_us",
        _requests,
    ),
    SummaryLine(
        "OffsetCommit, 1 connection",
        "group_calls",
        "OffsetCommit, native group, 1 connection",
        "Kafka",
        "cpu_us",
        _requests,
    ),
    SummaryLine(
        "OffsetCommit, 100 connections",
        "group_calls",
        "OffsetCommit, native group, 100 connections",
        "Kafka",
        "cpu_us",
        _requests,
    ),
    SummaryLine(
        "100 classic members join at once",
        "group_calls",
        "100 classic members join at once",
        "Kafka",
        "cpu_s",
        _join,
    ),
    SummaryLine(
        "1,000 classic members join at once",
        "group_calls",
        "1000 classic members join at once",
        "Kafka",
        "cpu_s",
        _join,
    ),
)
LATENCY_ROWS = {
    "1 connection, all on one core": "Round trip on one core, 1 connection",
    "100 connections": "Round trip, 100 connections",
    "1,000 connections": "Round trip, 1000 connections",
}


def summary_of(results: Mapping[str, Results]) -> str:
    """The table at the top of the page, and its pictures."""
    lines = ["| what | peer | ratio | for sizing |", "|---|---|---|---|"]
    for line in SUMMARY:
        ours, theirs = _figures(results, line)
        ratios = results[line.results]["ratios"]
        ratio = ratios.get(ratio_name(line.row, line.figure, line.peer), ours / theirs)
        if line.figure in LATENCIES:
            ratio = ours / theirs
        lines.append(f"| {line.what} | {line.peer} | {ratio:.2f} | {line.sizing(ours)} |")
    machine = results["relay"]["machine"]
    dates = ", ".join(sorted({result["machine"]["date"] for result in results.values()}))
    lines += [
        "",
        "A ratio is one of processor time, except for latency and memory. Measured on"
        f" {dates}, on {machine['cores']} cores ({machine['architecture']}), Linux"
        f" {machine['kernel']}, Python {machine['python']}, by"
        " `poe bench group_calls relay tls --keep`.",
        "",
        f"![Processor time per request]({COST_PICTURE.name})",
        "",
        f"![Latency that a relay adds]({LATENCY_PICTURE.name})",
    ]
    return "\n".join(lines) + "\n"


def _figures(results: Mapping[str, Results], line: SummaryLine) -> tuple[float, float]:
    figures = results[line.results]["figures"]
    ours, theirs = (figures[f"{line.row}, {arm}"][line.figure] for arm in (SUBJECT, line.peer))
    return ours, theirs


def costs_picture(results: Mapping[str, Results]) -> str:
    """What a request costs here and at the peer."""
    blocks = []
    for line in SUMMARY:
        if line.figure == "cpu_us":
            figures = zip((SUBJECT, line.peer), _figures(results, line), strict=True)
            rows = [BarRow(name, COLOURS[name], (figure,)) for name, figure in figures]
            blocks.append((line.what, rows))
    return draw_bars("Processor time per request", ["µs of processor time per request"], blocks)


def latency_picture(results: Mapping[str, Results]) -> str:
    """What a relay adds to the time until an answer."""
    figures = results["relay"]["figures"]
    blocks = [
        (
            name,
            [
                BarRow(arm, COLOURS[arm], [figures[f"{row}, {arm}"][figure] for figure in _ADDED])
                for arm in (SUBJECT, "HAProxy", "C relay")
            ],
        )
        for name, row in LATENCY_ROWS.items()
    ]
    columns = ["added median, µs", "added p99, µs"]
    return draw_bars("Latency that a relay adds", columns, blocks, scale_by_block=True)


_ADDED = ("added_median_us", "added_p99_us")


def tables_of(name: str, results: Results) -> str:
    """The tables of one benchmark: a row for each measurement, the peers next to groupferry."""
    rows: defaultdict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for key, figures in results["figures"].items():
        row, _, arm = key.rpartition(", ")
        rows[row][arm] = figures
    lines = [f"## {TITLES[name]}", ""]
    machine = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
    lines += [f"`poe bench {name} --keep` on {machine}.", ""]
    lines += ["| row | figure | groupferry | peer | ratio |", "|---|---|---|---|---|"]
    for row, arms in rows.items():
        for arm, figures in arms.items():
            if arm in (SUBJECT, DIRECT):
                continue
            for figure, unit in UNITS.items():
                if figure not in figures or figure not in arms[SUBJECT]:
                    continue
                ours, theirs = arms[SUBJECT][figure], figures[figure]
                ratio = results["ratios"].get(ratio_name(row, figure, arm))
                shown = "" if ratio is None or figure in LATENCIES else f"{ratio:.2f}"
                lines.append(f"| {row} | {unit} | {ours:,.4g} | {arm} {theirs:,.4g} | {shown} |")
    lines += [f"\nNot measured: {skipped}." for skipped in results["skipped"]]
    return "\n".join(lines) + "\n"


def committed_results() -> dict[str, Results]:
    """The full results of all benchmarks that have some."""
    return {name: json.loads((RESULTS / f"{name}-full.json").read_text()) for name in TITLES}


def page(text: str, results: Mapping[str, Results]) -> str:
    """The page with a new summary and new tables."""
    start, summary_mark, rest = text.partition(SUMMARY_MARK)
    _, summary_end, rest = rest.partition(SUMMARY_END)
    written, mark, _ = rest.partition(MARK)
    tables = "\n".join(tables_of(name, rows) for name, rows in results.items())
    summary = f"{summary_mark}\n{summary_of(results)}\n{summary_end}"
    return f"{start}{summary}{written}{mark}\n{tables}"


if __name__ == "__main__":
    committed = committed_results()
    PAGE.write_text(page(PAGE.read_text(), committed))
    COST_PICTURE.write_text(costs_picture(committed))
    LATENCY_PICTURE.write_text(latency_picture(committed))
