"""The owners of each partition over time, as the engine granted it and as the members stated it.

Two owners at once are an overlap, however short. Between two owners is a gap. The two bases have no
event in common, so that each is a check of the other.

Where events of the group's sequence are missing, or are unreadable although their names are known,
a grant or a release may be among them. A member that releases a partition without a visible grant
had it since the last event before such a hole. A member without a visible release had it until
then, if another member has it after the hole. A hole alone therefore makes no overlap.
"""

from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GroupHistories
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.emptiness import with_empty_time
from gateway.pipeline.tables.granted import PARTITION, granted
from gateway.pipeline.tables.intervals import side_by_side
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.stated import evidence, stated


class OwnershipRow(Row):
    """One interval of one partition."""

    topic: str
    partition: int
    basis: Literal["granted", "stated"]
    """`granted`: what the engine granted and took back. `stated`: what a member claimed to own, or
    committed for; this ends with its last claim, not when it gave the partition up."""
    kind: Literal["owner", "gap", "overlap"]
    """`overlap`: two members owned it. `gap`: no member owned it after one had; only for
    `granted`."""
    member_id: str | None
    """The owner; in an overlap the second one; null in a gap."""
    other_member_id: str | None
    """In an overlap, the first owner."""
    from_ms: int | None
    """Null if it began before the first event."""
    to_ms: int | None
    """Null if it has not ended, as far as known."""
    empty_ms: int | None
    """For a gap that has ended, the milliseconds of it during which the group had no members."""


def ownership(histories: GroupHistories, changes: DataFrame) -> DataFrame:
    """See `OwnershipRow`."""
    by_engine = side_by_side(granted(histories), of=PARTITION)
    by_members = side_by_side(stated(evidence(histories)), of=PARTITION)
    both = with_empty_time(by_engine.withColumn("basis", F.lit("granted")), changes).unionByName(
        by_members.where(F.col("kind") != "gap").withColumn("basis", F.lit("stated")),
        allowMissingColumns=True,
    )
    return both.select(*struct_of(OwnershipRow).names)
