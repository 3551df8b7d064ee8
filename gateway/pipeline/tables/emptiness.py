"""The time that a group had no members, when no member could miss an unowned partition."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.tables.windows import but_this, so_far


def with_empty_time(intervals: DataFrame, changes: DataFrame) -> DataFrame:
    """Intervals with `empty_ms`: for an ended gap, how long the group had no members during it.

    Both ends of a gap are in `changes`, because a partition was granted or released there.
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
    """For each moment of a group, the total time without members before it: `empty_ms`."""
    lasts_ms = F.lead("at_ms").over(so_far()) - F.col("at_ms")
    empty = changes.select(
        *GROUP, "place", "at_ms", F.when(F.col("members") == 0, lasts_ms).alias("empty_ms")
    )
    before_ms = F.coalesce(F.sum("empty_ms").over(but_this(so_far())), F.lit(0))
    # Changes of one moment have the same time before them, since no time passes between them.
    return (
        empty.select(*GROUP, "at_ms", before_ms.alias("before_ms"))
        .groupBy(*GROUP, "at_ms")
        .agg(F.min("before_ms").alias("empty_ms"))
    )
