"""When a group had no members: then nobody misses a partition that nobody owns."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
)
from gateway.pipeline.stories import GROUP, Stories


def empty_times(stories: Stories) -> DataFrame:
    """Intervals `empty_from_ms` to `empty_to_ms` of each group; those that have ended.

    Who was there before the first event is known by who went without having come.
    """
    told = stories.of(MemberJoined, MemberLeft, MemberFenced, MemberReplaced)
    in_order = Window.partitionBy(*GROUP).orderBy("position")
    came = F.when(F.col("event") == MemberJoined.name, 1).otherwise(-1)
    counted = told.select(
        *GROUP,
        "position",
        "at_ms",
        F.sum(came).over(in_order).alias("change"),
    )
    there_before = F.greatest(F.lit(0), -F.min("change").over(Window.partitionBy(*GROUP)))
    emptied = counted.withColumns(
        {
            "members": F.col("change") + there_before,
            "empty_to_ms": F.lead("at_ms").over(in_order),
        }
    ).where((F.col("members") == 0) & F.col("empty_to_ms").isNotNull())
    return emptied.select(*GROUP, F.col("at_ms").alias("empty_from_ms"), "empty_to_ms")


def with_empty_time(intervals: DataFrame, stories: Stories) -> DataFrame:
    """Intervals with `empty_ms`: of a gap that has ended, how long the group had no members."""
    names = intervals.columns
    empty = (
        empty_times(stories)
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
