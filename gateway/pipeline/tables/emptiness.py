"""When a group had no members: then nobody misses a partition that nobody owns."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.tables.windows import but_this, so_far


def with_empty_time(intervals: DataFrame, changes: DataFrame) -> DataFrame:
    """Intervals with `empty_ms`: of a gap that has ended, how long the group had no members.

    Both its ends are moments of `changes`: somebody was given the partition, or gave it up.
    """
    until = _empty_until(changes)

    def at(end: str) -> DataFrame:
        return until.select(
            *GROUP, F.col("at_ms").alias(end), F.col("empty_ms").alias(f"empty_until_{end}")
        )

    known = intervals.join(at("from_ms"), [*GROUP, "from_ms"], "left").join(
        at("to_ms"), [*GROUP, "to_ms"], "left"
    )
    is_gap = (F.col("kind") == "gap") & F.col("to_ms").isNotNull()
    empty_ms = F.col("empty_until_to_ms") - F.col("empty_until_from_ms")
    return known.select(*intervals.columns, F.when(is_gap, empty_ms).alias("empty_ms"))


def _empty_until(changes: DataFrame) -> DataFrame:
    """For each moment of a group, how long in all it had no members before: `empty_ms`."""
    lasts_ms = F.lead("at_ms").over(so_far()) - F.col("at_ms")
    empty = changes.select(
        *GROUP, "place", "at_ms", F.when(F.col("members") == 0, lasts_ms).alias("empty_ms")
    )
    before_ms = F.coalesce(F.sum("empty_ms").over(but_this(so_far())), F.lit(0))
    # Of the changes of one moment each has the same time before it: those between last no time.
    return (
        empty.select(*GROUP, "at_ms", before_ms.alias("before_ms"))
        .groupBy(*GROUP, "at_ms")
        .agg(F.min("before_ms").alias("empty_ms"))
    )
