"""Draws what one roll costs on each way: the picture of the README, from the table of rolls."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.bench.bars import BarRow, draw_bars

ROLL = "librdkafka eager, gap 1 s"
"""The row that is drawn."""
WAYS = {
    "Kafka 4.3, own migration": ("Kafka's own migration", "#c0504d"),
    "Kafka 4.3, plain restart": ("a plain rolling restart", "#8a8f98"),
    "groupferry on 4.3": ("groupferry", "#2f855a"),
}
"""The names of the ways in the table, and in the picture, with their colours."""
COLUMNS = ("partition-seconds without an owner", "others disturbed per step")


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
    """The ways below one another."""
    rows = [
        BarRow(*WAYS[cost.way], (cost.idle_partition_s, cost.others_disturbed)) for cost in costs
    ]
    return draw_bars("What a roll costs", COLUMNS, [("", rows)])


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]
