"""Who owned each partition when, as the engine granted it and as the members themselves stated it.

Two owners at once are an overlap, however short; between two owners is a gap. The two bases have no
event in common, so that each is a check of the other.

Where events of the group's sequence are missing, or cannot be read though their names are known, a
grant or a release may be among them. Who gives up what nobody saw it get, had it since the last
event before such a hole; who is not seen to give up what somebody else has behind it, had it until
then. So a hole alone makes no overlap.
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
    """`granted`: what the engine gave and took back. `stated`: what a member said that it owns, or
    committed for; that ends with its last word, not when it gave the partition up."""
    kind: Literal["owner", "gap", "overlap"]
    """`overlap`: two owned it. `gap`: nobody did after somebody had; only of what was granted."""
    member_id: str | None
    """The owner; of an overlap the one who came second; null in a gap."""
    other_member_id: str | None
    """Of an overlap, who had it already."""
    from_ms: int | None
    """Null: since before the first event."""
    to_ms: int | None
    """Null: still, as far as anything is told."""
    empty_ms: int | None
    """Of a gap that has ended, for how many milliseconds of it the group had no members."""


def ownership(histories: GroupHistories, changes: DataFrame) -> DataFrame:
    """See `OwnershipRow`."""
    by_engine = side_by_side(granted(histories), of=PARTITION)
    by_members = side_by_side(stated(evidence(histories)), of=PARTITION)
    both = with_empty_time(by_engine.withColumn("basis", F.lit("granted")), changes).unionByName(
        by_members.where(F.col("kind") != "gap").withColumn("basis", F.lit("stated")),
        allowMissingColumns=True,
    )
    return both.select(*struct_of(OwnershipRow).names)
