"""What a roll costs a group: figures of its steps, their table, and a plot of idle partitions.

A partition is idle while no process owns it, by the clients' own callbacks. The *floor* is what no
coordinator can avoid: the partitions of the restarted member, for as long as its process is away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from statistics import median

from gateway.demo.ledger import Ledger, Ownership

FIGURES = {
    "idle": "idle partition-seconds",
    "above_floor": "above the floor",
    "disturbed": "others disturbed per step",
    "moved": "partitions moved",
    "twice": "records twice",
    "settle_s": "settled after, s",
    "worst_s": "worst partition, s",
    "load": "load average",
}
"""The figures of a roll, in the order of the table's columns. Less is better in all of them."""

INSTANT_S = 0.001
"""A step includes the callback that settles it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollStep:
    """The restart of one member: from its request to leave until the group had settled."""

    member: str
    protocol: str
    """The protocol of the new process."""
    began_s: float
    settled_s: float
    """The last callback before the group stayed as it was."""
    floor_s: float
    """Partitions of the member times the seconds for which its process was to be away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTime:
    """A time in which nobody owned a partition."""

    partition: int
    since_s: float
    until_s: float
    why: str
    """One of `REASONS`."""


REASONS = {
    "restarted": "#888888",
    "revoked": "#d1495b",
    "moved": "#edae49",
}
"""The reasons for idle time, with their colours: the owner was restarted and got it back; another
member gave it up and got it back; it went to another member."""


def costs_of(ledger: Ledger, partitions: int, steps: Sequence[RollStep]) -> dict[str, float]:
    """The figures of a roll, by the names of `FIGURES`."""
    effects = [
        ledger.disturbance(each.member, each.began_s, each.settled_s + INSTANT_S) for each in steps
    ]
    idle = sum(each.unowned_partition_s for each in effects)
    per_partition = [0.0] * partitions
    for gap in idle_times(ledger, partitions, steps):
        per_partition[gap.partition] += gap.until_s - gap.since_s
    return {
        "idle": idle,
        "above_floor": idle - sum(each.floor_s for each in steps),
        "disturbed": sum(each.members_disturbed for each in effects) / len(steps),
        "moved": sum(each.partitions_moved for each in effects),
        "twice": ledger.delivered_again(),
        "settle_s": median(each.settled_s - each.began_s for each in steps),
        "worst_s": max(per_partition),
    }


def idle_times(ledger: Ledger, partitions: int, steps: Sequence[RollStep]) -> Iterator[IdleTime]:
    """Every time between two owners of a partition during the roll."""
    for partition in range(partitions):
        owned = [each for each in ledger.history(partition) if isinstance(each, Ownership)]
        for before, after in pairwise(sorted(owned, key=lambda each: each.since_s)):
            if before.until_s is None or not before.until_s < after.since_s:
                continue
            step = next((s for s in reversed(steps) if s.began_s <= before.until_s), None)
            if step is None:
                continue
            why = "revoked"
            if before.process.member != after.process.member:
                why = "moved"
            elif before.process.member == step.member:
                why = "restarted"
            yield IdleTime(
                partition=partition, since_s=before.until_s, until_s=after.since_s, why=why
            )


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure over repeated runs."""
    return {name: median(run[name] for run in runs) for name in FIGURES}


def table_of(rows: Mapping[str, Mapping[str, Mapping[str, float] | str]]) -> str:
    """A Markdown table: by row and arm the figures, or why there are none."""
    lines = [
        f"| roll | through | {' | '.join(FIGURES.values())} |",
        f"|---|---|{'---|' * len(FIGURES)}",
    ]
    for row, arms in rows.items():
        for arm, found in arms.items():
            if isinstance(found, str):
                cells = [found.replace("|", "/"), *[""] * (len(FIGURES) - 1)]
            else:
                cells = [f"{found[name]:,.3g}" for name in FIGURES]
            lines.append(f"| {row} | {arm} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def merged(kept: str, table: str) -> str:
    """The table with those rows of an earlier one that it lacks, if the columns are the same."""
    head, rule, *rows = table.splitlines()
    earlier = [line for line in kept.splitlines() if line.startswith("|")]
    by_name = {_name(row): row for row in earlier[2:]} if earlier[:1] == [head] else {}
    by_name |= {_name(row): row for row in rows}
    return "\n".join([head, rule, *(by_name[name] for name in sorted(by_name))]) + "\n"


def _name(row: str) -> tuple[str, ...]:
    return tuple(row.split("|")[1:3])


def plot_of(title: str, ledger: Ledger, partitions: int, steps: Sequence[RollStep]) -> str:
    """An SVG: a line for each partition, a bar for each time it was idle in the colour of the
    reason, and a mark for each step."""
    left, top, width, height = 40, 48, 1400, 10
    began_s, ended_s = steps[0].began_s, steps[-1].settled_s
    scale = width / max(ended_s - began_s, 1.0)

    def x(at_s: float) -> float:
        return left + (at_s - began_s) * scale

    bottom = top + partitions * height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}"'
        f' height="{bottom + 20}" font-family="sans-serif" font-size="9">',
        f'<text x="{left}" y="14" font-size="13">{escape(title)}</text>',
    ]
    for number, (why, colour) in enumerate(REASONS.items()):
        at = left + 110 * number
        parts.append(f'<rect x="{at}" y="20" width="9" height="9" fill="{colour}"/>')
        parts.append(f'<text x="{at + 13}" y="28">{why}</text>')
    for step in steps:
        mark = x(step.began_s)
        parts.append(
            f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="{top - 6}" y2="{bottom}" stroke="#ccc"/>'
            f'<text x="{mark:.1f}" y="{top - 8}">{escape(f"{step.member} {step.protocol}")}</text>'
        )
    parts.extend(
        f'<text x="4" y="{top + number * height + 8}">{number}</text>'
        for number in range(partitions)
    )
    for gap in idle_times(ledger, partitions, steps):
        spent_s = gap.until_s - gap.since_s
        parts.append(
            f'<rect x="{x(gap.since_s):.1f}" y="{top + gap.partition * height + 1}"'
            f' width="{max(spent_s * scale, 0.5):.1f}" height="{height - 2}"'
            f' fill="{REASONS[gap.why]}"><title>partition {gap.partition}: {spent_s:.2f} s,'
            f" {gap.why}</title></rect>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
