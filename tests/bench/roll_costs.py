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
    started_s: float
    settled_s: float
    """The last callback before the group stayed as it was."""
    floor_s: float
    """Partitions of the member times the seconds for which its process was to be away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTime:
    """A time in which nobody owned a partition."""

    partition: int
    step: RollStep
    owner: str
    """The member that had it until then."""
    next_owner: str
    since_s: float
    until_s: float
    reason: str
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
        ledger.disturbance(step.member, step.started_s, step.settled_s + INSTANT_S)
        for step in steps
    ]
    idle = sum(effect.unowned_partition_s for effect in effects)
    per_partition = [0.0] * partitions
    for gap in idle_times(ledger, partitions, steps):
        per_partition[gap.partition] += gap.until_s - gap.since_s
    return {
        "idle": idle,
        "above_floor": idle - sum(step.floor_s for step in steps),
        "disturbed": sum(effect.members_disturbed for effect in effects) / len(steps),
        "moved": sum(effect.partitions_moved for effect in effects),
        "twice": ledger.delivered_again(),
        "settle_s": median(step.settled_s - step.started_s for step in steps),
        "worst_s": max(per_partition),
    }


def idle_times(ledger: Ledger, partitions: int, steps: Sequence[RollStep]) -> Iterator[IdleTime]:
    """Every time between two owners of a partition during the roll."""
    for partition in range(partitions):
        owned = [entry for entry in ledger.history(partition) if isinstance(entry, Ownership)]
        for before, after in pairwise(sorted(owned, key=lambda ownership: ownership.since_s)):
            if before.until_s is None or not before.until_s < after.since_s:
                continue
            step = next((s for s in reversed(steps) if s.started_s <= before.until_s), None)
            if step is None:
                continue
            owner, next_owner = before.process.member, after.process.member
            reason = "revoked"
            if owner != next_owner:
                reason = "moved"
            elif owner == step.member:
                reason = "restarted"
            yield IdleTime(
                partition=partition,
                step=step,
                owner=owner,
                next_owner=next_owner,
                since_s=before.until_s,
                until_s=after.since_s,
                reason=reason,
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
        for arm, measured in arms.items():
            if isinstance(measured, str):
                cells = [measured.replace("|", "/"), *[""] * (len(FIGURES) - 1)]
            else:
                cells = [f"{measured[name]:,.3g}" for name in FIGURES]
            lines.append(f"| {row} | {arm} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def merge_tables(old_table: str, table: str) -> str:
    """The table with those rows of an earlier one that it lacks, if the columns are the same."""
    head, rule, *rows = table.splitlines()
    earlier = [line for line in old_table.splitlines() if line.startswith("|")]
    by_name = {_name(row): row for row in earlier[2:]} if earlier[:1] == [head] else {}
    by_name |= {_name(row): row for row in rows}
    return "\n".join([head, rule, *(by_name[name] for name in sorted(by_name))]) + "\n"


def _name(row: str) -> tuple[str, ...]:
    return tuple(row.split("|")[1:3])


LEFT, WIDTH, LINE = 260, 1100, 12
"""Pixels of the plot: the labels, the bars, and the height of a line."""


def plot_of(title: str, ledger: Ledger, partitions: int, steps: Sequence[RollStep]) -> str:
    """An SVG with a part for each step: a bar for the partitions that one member had and nobody
    owned for a time, with their number, in the colour of the reason. All steps have one scale."""
    idle: dict[RollStep, dict[tuple[float, float, str, str], list[IdleTime]]]
    idle = {step: {} for step in steps}
    for gap in idle_times(ledger, partitions, steps):
        bar = (gap.since_s, gap.until_s, gap.owner, gap.next_owner)
        idle[gap.step].setdefault(bar, []).append(gap)
    ends_s = [until - step.started_s for step, bars in idle.items() for _, until, *_ in bars]
    scale = WIDTH / max(ends_s, default=1.0)
    parts = [
        f'<text x="4" y="14" font-size="13">{escape(title)}, in seconds since the request to'
        " leave</text>"
    ]
    for number, (reason, colour) in enumerate(REASONS.items()):
        at = LEFT + 110 * number
        parts.append(f'<rect x="{at}" y="20" width="9" height="9" fill="{colour}"/>')
        parts.append(f'<text x="{at + 13}" y="28">{reason}</text>')
    y = 40
    for number, (step, bars) in enumerate(idle.items()):
        y += LINE
        settled_s = step.settled_s - step.started_s
        parts.append(
            f'<text x="4" y="{y}" font-weight="bold">{number + 1}. {escape(step.member)}'
            f" {step.protocol}</text>"
            f'<text x="{LEFT}" y="{y}">settled after {settled_s:.2f} s</text>'
        )
        for (since_s, until_s, owner, next_owner), alike in sorted(bars.items()):
            y += LINE
            whose = owner if owner == next_owner else f"{owner}, then {next_owner}"
            numbers = ", ".join(str(gap.partition) for gap in alike)
            words = f"{since_s - step.started_s:.2f} to {until_s - step.started_s:.2f} s"
            parts.append(
                f'<text x="16" y="{y}">{len(alike)} of {escape(whose)}</text>'
                f'<rect x="{LEFT + (since_s - step.started_s) * scale:.1f}" y="{y - LINE + 3}"'
                f' width="{max((until_s - since_s) * scale, 0.5):.1f}" height="{LINE - 2}"'
                f' fill="{REASONS[alike[0].reason]}"><title>{words}, {alike[0].reason}:'
                f" {numbers}</title></rect>"
            )
        y += LINE // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{y + LINE}"'
        ' font-family="sans-serif" font-size="10">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"
