"""What the members said themselves: that they own a partition, with a join or a heartbeat, or by
committing for it. Nothing here comes from what the engine granted.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.events.member_events import PartitionsStated
from gateway.events.offset_events import OffsetsCommitted
from gateway.pipeline.stories import GROUP, Stories
from gateway.pipeline.tables.granted import PARTITION

NOBODY = ""
"""The member id of a commit by somebody outside the group."""


def evidence(stories: Stories) -> DataFrame:
    """A row for each word of a member that it has a partition: `at_ms`, whether it `is_commit`, and
    how many `statements` the member had made by then. Of the commits in one event the first and the
    last moment count."""
    told = stories.of(PartitionsStated, OffsetsCommitted).where(F.col("member_id") != NOBODY)
    said = told.select(
        *GROUP,
        "member_id",
        (F.col("event") == OffsetsCommitted.name).alias("is_commit"),
        F.coalesce(
            "partitions",
            F.transform_values("offsets", lambda _topic, each: each["partition"]),
        ).alias("partitions"),
        F.explode(
            F.when(F.col("event") == PartitionsStated.name, F.array("at_ms")).otherwise(
                F.array_distinct(F.array("from_ms", "to_ms"))
            )
        ).alias("at_ms"),
    )
    in_time = Window.partitionBy(*GROUP, "member_id").orderBy("at_ms", "is_commit")
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    statements = F.sum(F.when(F.col("is_commit"), 0).otherwise(1)).over(so_far)
    return (
        said.withColumn("statements", statements)
        .select("*", F.explode("partitions").alias("topic", "numbers"))
        .select(
            *GROUP,
            "topic",
            F.explode("numbers").alias("partition"),
            "member_id",
            "at_ms",
            "is_commit",
            "statements",
        )
    )


def stated(evidence: DataFrame) -> DataFrame:
    """Intervals of `member_id`: from the first word to the last, without a statement in between
    that leaves the partition out. Their positions are their times."""
    in_time = Window.partitionBy(*PARTITION, "member_id").orderBy(
        "at_ms", "is_commit", "statements"
    )
    # Had each statement since the last word named the partition, that word would be a later one.
    expected = F.col("statements") - F.when(F.col("is_commit"), 0).otherwise(1)
    is_new = F.coalesce(F.lag("statements").over(in_time) < expected, F.lit(True))
    return (
        evidence.withColumn("is_new", is_new.cast("int"))
        .withColumn("stint", F.sum("is_new").over(in_time))
        .groupBy(*PARTITION, "member_id", "stint")
        .agg(F.min("at_ms").alias("from_ms"), F.max("at_ms").alias("to_ms"))
        .withColumns(
            {
                "from_position": F.col("from_ms"),
                "to_position": F.col("to_ms"),
                "is_gone": F.lit(False),
            }
        )
        .drop("stint")
    )
