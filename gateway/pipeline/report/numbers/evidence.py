"""The rows of evidence: the gravest of each kind up to a limit, with a count of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from gateway.pipeline.report.model import Column, Evidence
from gateway.pipeline.report.numbers.limits import first_of

ROWS_MAX = 200
TEXT_MAX = 1_000
"""Characters of a text on the page."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Selects rows of a table by a Spark SQL condition, with their order; `-` means descending."""

    table: str
    condition: str
    order: Sequence[str]


_KINDS: Mapping[str, _Kind] = {
    "overlaps": _Kind("ownership", "kind = 'overlap'", ("from_ms",)),
    "regressions": _Kind("offsets", "finding = 'regression'", ("from_ms",)),
    "lost_commits": _Kind("lost_commits", "true", ("at_ms",)),
    "missing_events": _Kind("sequences", "true", ("from_ms",)),
    "contradictions": _Kind("contradictions", "true", ("at_ms",)),
    "differences": _Kind("differences", "true", ("at_ms",)),
    "moves_back": _Kind("offsets", "finding in ('seek', 'reset')", ("from_ms",)),
    "migrations": _Kind("migrations", "true", ("-unowned_partition_s", "from_ms")),
    "rebalances": _Kind(
        "rebalances", "true", ("-members_disturbed", "-partitions_moved", "from_ms")
    ),
    "readiness": _Kind("readiness", "true", ("can_convert", "-members")),
    "rejected_lines": _Kind("rejected", "true", ("-group_id", "file", "place")),
}


def evidence(
    tables: Mapping[str, DataFrame], rows_of: Mapping[str, type[BaseModel]]
) -> Mapping[str, Evidence]:
    """The evidence by key of the page; `rows_of` has the models of the tables' rows, by name."""
    return {
        key: _evidence(kind, tables[kind.table].where(kind.condition), rows_of[kind.table])
        for key, kind in _KINDS.items()
    }


def _evidence(kind: _Kind, found: DataFrame, row: type[BaseModel]) -> Evidence:
    columns = list(row.model_fields)
    order = [
        F.desc(name[1:]) if name.startswith("-") else F.asc(name)
        for name in (*kind.order, *columns)
    ]
    rows, left_out = first_of(_cut(found.select(*columns)), order, ROWS_MAX)
    return Evidence(
        table=kind.table,
        columns=tuple(
            Column(name=name, meaning=" ".join((field.description or "").split()))
            for name, field in row.model_fields.items()
        ),
        rows=tuple(each.asDict() for each in rows),
        left_out=left_out,
    )


def _cut(found: DataFrame) -> DataFrame:
    texts = [field.name for field in found.schema if field.dataType == StringType()]
    return found.withColumns({name: F.substring(name, 1, TEXT_MAX) for name in texts})
