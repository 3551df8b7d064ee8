"""Write the tables of `gateway/docs/figures.md` from the committed results.

python -m tests.bench.figures
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.bench.comparison import DIRECT, SUBJECT, ratio_name

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "gateway" / "docs" / "figures.md"
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


def tables_of(name: str, results: dict[str, Any]) -> str:
    """The tables of one benchmark: a row for each measurement, the peers beside groupferry."""
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
    lines += [f"\nNot measured: {each}." for each in results["skipped"]]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with new tables."""
    written, mark, _ = text.partition(MARK)
    tables = [
        tables_of(name, json.loads(path.read_text()))
        for name in TITLES
        if (path := RESULTS / f"{name}-full.json").exists()
    ]
    return written + mark + "\n" + "\n".join(tables)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
