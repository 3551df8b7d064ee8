"""The input tables of a report. Each row sets only the columns that matter to its test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP = "cluster_id string, group_id string, "
COLUMNS = {
    "changes": "at_ms long, is_present boolean, was_present boolean, protocol string,"
    " protocol_before string",
    "timeline": "member_id string, instance_id string, protocol string, from_ms long, to_ms long",
    "ownership": "topic string, partition long, basis string, kind string, member_id string,"
    " other_member_id string, from_ms long, to_ms long, empty_ms long",
    "offsets": "topic string, partition long, finding string, from_ms long, to_ms long",
    "sequences": "process_id string, missing_from long, missing_to long, from_ms long",
    "contradictions": "process_id string, sequence long, at_ms long",
    "lost_commits": "at_ms long",
    "differences": "at_ms long",
    "rebalances": "from_ms long, members_disturbed long, partitions_moved long,"
    " partitions_moved_least long",
    "migrations": "direction string, from_ms long, to_ms long, is_complete boolean,"
    " cost_from_ms long, cost_to_ms long,"
    " unowned_partition_s double",
    "readiness": "software_name string, software_version string, protocol string, members long,"
    " can_convert boolean, blocked_by string,"
    " speaks_consumer boolean",
}

Row = Mapping[str, Any]


def tables(spark: SparkSession, **rows: Sequence[Row]) -> dict[str, DataFrame]:
    """All tables, empty except for the given rows. A row belongs to group `g`, and an ownership row
    to the granted partition 0, unless stated."""
    found = {name: table(spark, name, rows.get(name, ())) for name in COLUMNS}
    names = ("file", "place", "group_id")
    rejected = [tuple(map(row.get, names)) for row in rows.get("rejected", ())]
    found["rejected"] = spark.createDataFrame(
        rejected, ", ".join(f"{name} string" for name in names)
    )
    return found


def table(spark: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    """One table."""
    schema = GROUP + COLUMNS[name]
    names = [column.split()[0] for column in schema.split(",")]
    usual = {"cluster_id": "", "group_id": "g", "topic": "t", "partition": 0, "basis": "granted"}
    values = [tuple({**usual, **_counted(row), **row}.get(each) for each in names) for row in rows]
    return spark.createDataFrame(values, schema)


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
