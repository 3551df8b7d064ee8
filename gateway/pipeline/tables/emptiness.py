"""When a group had no members: then nobody misses a partition that nobody owns."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.pipeline.stories import GROUP
from gateway.pipeline.tables.windows import so_far


def empty_times(changes: DataFrame) -> DataFrame:
    """Intervals `empty_from_ms` to `empty_to_ms` of each group; those that have ended."""
    to_ms = F.lead("at_ms").over(so_far())
    return (
        changes.select(
            *GROUP, "members", F.col("at_ms").alias("empty_from_ms"), to_ms.alias("empty_to_ms")
        )
        .where((F.col("members") == 0) & (F.col("empty_from_ms") < F.col("empty_to_ms")))
        .drop("members")
    )


def with_empty_time(intervals: DataFrame, changes: DataFrame) -> DataFrame:
    """Intervals with `empty_ms`: of a gap that has ended, how long the group had no members."""
    names = intervals.columns
    empty = (
        empty_times(changes)
        .groupBy(*GROUP)
        .agg(F.collect_list(F.struct("empty_from_ms", "empty_to_ms")).alias("times"))
    )
    shared_ms = F.transform(
        "times",
        lambda each: F.greatest(
            F.lit(0),
            F.least("to_ms", each["empty_to_ms"]) - F.greatest("from_ms", each["empty_from_ms"]),
        ),
    )
    in_all = F.aggregate(shared_ms, F.lit(0).cast("long"), lambda total, each: total + each)
    is_gap = (F.col("kind") == "gap") & F.col("to_ms").isNotNull()
    return intervals.join(empty, list(GROUP), "left").select(
        *names, F.when(is_gap, F.coalesce(in_all, F.lit(0))).alias("empty_ms")
    )
