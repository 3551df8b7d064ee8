"""The rows of evidence: the gravest of each kind up to a limit, with a count of the others."""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from gateway.pipeline.report.model import Cell, Column, Evidence
from gateway.pipeline.report.numbers.limits import short
from gateway.pipeline.tables.catalog import ALL_ROWS
from gateway.pipeline.tables.row import BaseRow, columns, json_schema

R = TypeVar("R", bound=BaseRow)

ROWS_MAX = 200
TEXT_MAX = 1_000
"""Characters of a text on the page."""
_CANDIDATES_MAX = 5 * ROWS_MAX


@dataclass(frozen=True, slots=True)
class Kind:
    """Selects rows of a table, with their order; `-` means descending."""

    table: str
    order: Sequence[str]
    is_one: Callable[[Any], bool] = field(default=lambda _row: True)


KINDS: Mapping[str, Kind] = {
    "overlaps": Kind("ownership", ("from_ms",), lambda row: row.kind == "overlap"),
    "unsure": Kind("ownership", ("from_ms",), lambda row: row.kind == "unsure"),
    "non_monotonic": Kind("offsets", ("from_ms",), lambda row: row.finding == "non_monotonic"),
    "lost_commits": Kind("wrong_starts", ("at_ms",), lambda row: row.finding == "lost"),
    "skips": Kind("wrong_starts", ("at_ms",), lambda row: row.finding == "skipped"),
    "missing_events": Kind("sequences", ("from_ms",)),
    "contradictions": Kind("contradictions", ("at_ms",)),
    "differences": Kind("differences", ("at_ms",)),
    "moves_back": Kind("offsets", ("from_ms",), lambda row: row.finding in ("seek", "reset")),
    "migrations": Kind("migrations", ("-unowned_partition_s", "from_ms")),
    "rebalances": Kind("rebalances", ("-members_disturbed", "-partitions_moved", "from_ms")),
    "readiness": Kind("readiness", ("can_convert", "-members")),
    "rejected_lines": Kind("rejected", ("-is_unread", "file", "place")),
}


class Gravest(BaseModel, Generic[R]):
    """The gravest rows of one kind."""

    count: int = 0
    """All rows."""
    rows: list[R] = []

    def add(self, kind: Kind, rows: Iterable[R]) -> None:
        """Add rows; those that the limit leaves out are only counted."""
        before = len(self.rows)
        self.rows += rows
        self.count += len(self.rows) - before
        if len(self.rows) > _CANDIDATES_MAX:
            self.cut(kind)

    def merge(self, kind: Kind, other: "Gravest[R]") -> None:
        """Add the rows of another one."""
        self.count += other.count
        self.rows += other.rows
        self.cut(kind)

    def cut(self, kind: Kind) -> None:
        """Keep the gravest rows, in their order."""
        for name in reversed((*kind.order, *columns(type(self.rows[0]))) if self.rows else ()):
            column = name.removeprefix("-")
            self.rows.sort(key=lambda row: _key(getattr(row, column)), reverse=column != name)
        del self.rows[ROWS_MAX:]


def _key(value: Any) -> tuple[bool, Any]:
    """Null comes before any value."""
    return value is not None, value


def evidence(kind: Kind, found: Gravest[Any]) -> Evidence:
    """The evidence of one kind for the page."""
    row = ALL_ROWS[kind.table]
    texts, names = _texts(row), kind.table != "rejected"  # rejected lines have no names
    found.cut(kind)

    def cell(name: str, value: Cell) -> Cell:
        if name not in texts or not isinstance(value, str):
            return value
        return (short(value) if names else value)[:TEXT_MAX]

    return Evidence(
        table=kind.table,
        columns=tuple(
            Column(name=name, meaning=" ".join(column.get("description", "").split()))
            for name, column in json_schema(row)["properties"].items()
        ),
        rows=tuple(
            {name: cell(name, getattr(each, name)) for name in columns(row)} for each in found.rows
        ),
        left_out=found.count - len(found.rows),
    )


def _texts(row: type[BaseRow]) -> frozenset[str]:
    """The columns with names and other texts."""
    return frozenset(
        name
        for name, kind in typing.get_type_hints(row).items()
        if kind is str or str in typing.get_args(kind)
    )
