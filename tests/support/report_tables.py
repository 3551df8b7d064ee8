"""The input tables of a report. Each row sets only the columns that matter to its test."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

from gateway.pipeline.fold.row import BaseRow, columns
from gateway.pipeline.fold.tables import ALL_ROWS, Tables

Row = Mapping[str, Any]


def tables(**rows: Sequence[Row]) -> Tables:
    """All tables, empty except for the given rows. A row belongs to group `g`, and an ownership row
    to the granted partition 0, unless stated."""
    return Tables(**{name: table(name, some) for name, some in rows.items()})


def table(name: str, rows: Sequence[Row]) -> list[Any]:
    """One table."""
    return [_made(ALL_ROWS[name], row) for row in rows]


def _made(model: type[BaseRow], row: Row) -> BaseRow:
    hints = get_type_hints(model)
    fields = {name: hints[name] for name in columns(model)}
    usual = {"cluster_id": "", "group_id": "g", "topic": "t", "partition": 0, "basis": "granted"}
    blank = {name: _blank(kind) for name, kind in fields.items()}
    values = {**blank, **usual, **_counted(row), **row}
    return model(**{name: values[name] for name in fields})


def _blank(kind: Any) -> Any:
    """A value that says nothing."""
    choices = get_args(kind)
    if type(None) in choices:
        return None
    return kind() if isinstance(kind, type) else choices[0]


def _counted(row: Row) -> Row:
    """A migration's costs last from its beginning to its end, unless stated."""
    return {"cost_from_ms": row.get("from_ms"), "cost_to_ms": row.get("to_ms")}


def owner(member_id: str, from_ms: int | None, to_ms: int | None, **more: object) -> Row:
    """A time in which a member owned a partition."""
    return {"kind": "owner", "member_id": member_id, "from_ms": from_ms, "to_ms": to_ms, **more}


def gap(from_ms: int, to_ms: int | None, **more: object) -> Row:
    """A time in which a partition had no owner."""
    return {"kind": "gap", "from_ms": from_ms, "to_ms": to_ms, **more}


def arrival(protocol: str, at_ms: int, *, switched_from: str | None = None) -> Row:
    """A member joined with this protocol, or switched to it under the same id."""
    return {
        "at_ms": at_ms,
        "is_present": True,
        "was_present": switched_from is not None,
        "protocol": protocol,
        "protocol_before": switched_from or protocol,
    }


def member(
    member_id: str | None, protocol: str | None, from_ms: int, to_ms: int | None, **more: object
) -> Row:
    """A time of a membership. Without a member id, the lifetime of the group."""
    times = {"from_ms": from_ms, "to_ms": to_ms}
    return {"member_id": member_id, "protocol": protocol, **times, **more}
