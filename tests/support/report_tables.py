"""The tables that a report is made from, by hand: of each row only what matters to the test."""

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
    """All of them, empty but for the rows given. A row is of the group `g` and, of ownership, of
    what was granted of partition 0, unless it says otherwise."""
    found = {name: table(spark, name, rows.get(name, ())) for name in COLUMNS}
    names = ("file", "place", "group_id")
    rejected = [tuple(map(row.get, names)) for row in rows.get("rejected", ())]
    found["rejected"] = spark.createDataFrame(
        rejected, ", ".join(f"{name} string" for name in names)
    )
    return found


def table(spark: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    """One of them."""
    schema = GROUP + COLUMNS[name]
    names = [column.split()[0] for column in schema.split(",")]
    usual = {"cluster_id": "", "group_id": "g", "topic": "t", "partition": 0, "basis": "granted"}
    values = [tuple({**usual, **_counted(row), **row}.get(each) for each in names) for row in rows]
    return spark.createDataFrame(values, schema)


def _counted(row: Row) -> Row:
    """A migration costs something from its beginning to its end, unless it says otherwise."""
    return {"cost_from_ms": row.get("from_ms"), "cost_to_ms": row.get("to_ms")}


def owner(member_id: str, from_ms: int | None, to_ms: int | None, **more: object) -> Row:
    """A partition was somebody's."""
    return {"kind": "owner", "member_id": member_id, "from_ms": from_ms, "to_ms": to_ms, **more}


def gap(from_ms: int, to_ms: int | None, **more: object) -> Row:
    """A partition was nobody's."""
    return {"kind": "gap", "from_ms": from_ms, "to_ms": to_ms, **more}


def arrival(protocol: str, at_ms: int, *, switched_from: str | None = None) -> Row:
    """A member came with that protocol; or switched to it, under its id."""
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
    """Somebody was in the group; without a member id, the group was there."""
    times = {"from_ms": from_ms, "to_ms": to_ms}
    return {"member_id": member_id, "protocol": protocol, **times, **more}
