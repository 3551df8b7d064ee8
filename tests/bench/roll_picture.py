"""Draws what one roll costs on each way: the picture of the README, from the table of rolls."""

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

ROLL = "librdkafka eager, gap 1 s"
"""The row that is drawn."""
WAYS = {
    "Kafka 4.3, own migration": ("Kafka's own migration", "#c0504d"),
    "Kafka 4.3, plain restart": ("a plain rolling restart", "#8a8f98"),
    "groupferry on 4.3": ("groupferry", "#2f855a"),
}
"""The names of the ways in the table, and in the picture, with their colours."""
WIDTH, LEFT, BAR_HEIGHT, LINE = 720, 190, 18, 34
BAR_WIDTH_MAX = 260


class RollCost(NamedTuple):
    """What the roll costs on one way."""

    way: str
    idle_partition_s: float
    others_disturbed: float


def costs_in(table: str) -> list[RollCost]:
    """The rows of the table that are drawn, in the order of WAYS. Raises ValueError if one is
    missing."""
    rows = {row[1]: row for row in _rows(table) if row[0] == ROLL}
    if missing := WAYS.keys() - rows.keys():
        raise ValueError(f"the table has no row of {', '.join(sorted(missing))}")
    return [RollCost(way, float(rows[way][2]), float(rows[way][4])) for way in WAYS]


def picture_of(costs: list[RollCost]) -> str:
    """An SVG that reads on light and on dark pages."""
    longest_s = max(cost.idle_partition_s for cost in costs)
    most = max(cost.others_disturbed for cost in costs)
    columns = (
        ("partition-seconds without an owner", LEFT, longest_s),
        ("others disturbed per step", LEFT + BAR_WIDTH_MAX + 90, most),
    )
    parts = [f'<text x="{at}" y="16" class="head">{name}</text>' for name, at, _ in columns]
    for number, cost in enumerate(costs):
        name, colour = WAYS[cost.way]
        y = 28 + number * LINE
        parts.append(f'<text x="4" y="{y + 14}">{escape(name)}</text>')
        figures = (cost.idle_partition_s, cost.others_disturbed)
        for (_, at, highest), figure in zip(columns, figures, strict=True):
            room = BAR_WIDTH_MAX if at == LEFT else WIDTH - at - 40
            length = round(room * figure / highest) if highest else 0
            parts.append(
                f'<rect x="{at}" y="{y}" width="{max(1, length)}" height="{BAR_HEIGHT}"'
                f' fill="{colour}"/>'
                f'<text x="{at + length + 6}" y="{y + 14}">{figure:g}</text>'
            )
    height = 28 + len(costs) * LINE
    style = "text{font:13px sans-serif;fill:#808890}.head{font-weight:bold}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' role="img" aria-label="What a roll costs"><style>{style}</style>{"".join(parts)}</svg>\n'
    )


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]
