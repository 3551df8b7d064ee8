"""Claims of members that contradict the engine's grants. Each is a finding, even without an
overlap.

A member may claim a partition for a while after losing it, because it learns of the loss later. Its
claim is therefore compared with the latest grant of the partition, released or not.
"""

from typing import Literal

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gateway.events.group_events import GroupCreated
from gateway.pipeline.group_histories import GROUP, GroupHistories
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.granted import PARTITION
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.stated import evidence


class DifferenceRow(Row):
    """One claim of a member without a grant."""

    topic: str
    partition: int
    member_id: str
    """The member that claimed the partition."""
    granted_to: str | None
    """The member that the partition was last granted to; null if there was no grant. A null is
    reported only for groups whose creation was seen."""
    said_by: Literal["statement", "commit"]
    at_ms: int


def differences(histories: GroupHistories, ownership: DataFrame) -> DataFrame:
    """See `DifferenceRow`. Of a member's claims in one round, the first and the last are
    compared."""
    words = evidence(histories).select(
        *PARTITION,
        "member_id",
        "is_commit",
        F.explode(F.array_distinct(F.array("from_ms", "to_ms"))).alias("at_ms"),
        F.lit(None).cast("string").alias("grantee"),
    )
    grants = ownership.where((F.col("basis") == "granted") & (F.col("kind") == "owner")).select(
        *PARTITION,
        F.lit(None).cast("string").alias("member_id"),
        F.lit(None).cast("boolean").alias("is_commit"),
        F.coalesce("from_ms", F.lit(0)).alias("at_ms"),
        F.col("member_id").alias("grantee"),
        "to_ms",
    )
    # Of several grants at one moment, the one that lasts longest comes last.
    in_time = Window.partitionBy(*PARTITION).orderBy(
        "at_ms", F.col("grantee").isNotNull(), F.asc_nulls_last("to_ms")
    )
    # Events of one millisecond may have happened in either order.
    at_once = Window.partitionBy(*PARTITION, "at_ms")
    told = words.unionByName(grants, allowMissingColumns=True).withColumns(
        {
            "granted_to": F.last("grantee", ignorenulls=True).over(in_time),
            "granted_now": F.collect_set("grantee").over(at_once),
        }
    )
    is_granted = F.coalesce(F.col("granted_to") == F.col("member_id"), F.lit(False)) | (
        F.array_contains("granted_now", F.col("member_id"))
    )
    created = histories.of(GroupCreated).select(*GROUP, F.lit(True).alias("is_whole")).distinct()
    return (
        told.where(F.col("grantee").isNull() & ~is_granted)
        .join(created, list(GROUP), "left")
        .where(F.col("granted_to").isNotNull() | F.col("is_whole"))
        .withColumn("said_by", F.when(F.col("is_commit"), "commit").otherwise("statement"))
        .select(*struct_of(DifferenceRow).names)
    )
