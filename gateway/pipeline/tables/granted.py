"""What the engine granted: from an assignment to the release by that member.

The two events are all that it takes, for groups of any kind, and `topics_gone`, after which nothing
is told of a topic's partitions any more.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.events.group_events import TopicsGone
from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from gateway.pipeline.parsing import is_any
from gateway.pipeline.stories import GROUP, Stories
from gateway.pipeline.tables.intervals import ENDLESS

PARTITION = (*GROUP, "topic", "partition")


def granted(stories: Stories) -> DataFrame:
    """Intervals of `member_id`, with positions and times; `is_gone` if one ended with its topic.

    A release without an assignment: the member had it since before the first event.
    """
    changes = _changes(stories)
    backwards = Window.partitionBy(*PARTITION, "member_id").orderBy(F.desc("position"))
    released = F.last(_moment(~F.col("is_grant")), ignorenulls=True).over(_passed(backwards))
    earlier = F.lead(F.struct("is_grant", "gone")).over(backwards)
    found = changes.withColumns({"released": released, "earlier": earlier})
    was_gone = F.coalesce(F.col("earlier.gone.position") < F.col("position"), F.lit(False))
    had_it = F.coalesce(F.col("earlier.is_grant") & ~was_gone, F.lit(False))
    is_from_before = ~F.col("is_grant") & F.col("earlier").isNull()
    begun = F.when(F.col("is_grant"), F.struct("position", "at_ms"))
    ended = F.when(is_from_before, F.struct("position", "at_ms")).otherwise(
        F.least("released", "gone")
    )
    return (
        found.where((F.col("is_grant") & ~had_it) | is_from_before)
        .withColumns({"begun": begun, "ended": ended})
        .select(
            *PARTITION,
            "member_id",
            F.coalesce("begun.position", F.lit(0)).alias("from_position"),
            F.col("begun.at_ms").alias("from_ms"),
            F.coalesce("ended.position", F.lit(ENDLESS)).alias("to_position"),
            F.col("ended.at_ms").alias("to_ms"),
            F.col("ended").eqNullSafe(F.col("gone")).alias("is_gone"),
        )
    )


def _changes(stories: Stories) -> DataFrame:
    """A row for each partition that was given or released, with the next end of its topic."""
    told = stories.of(PartitionsAssigned, PartitionsReleased, TopicsGone)
    gone = F.array_distinct("topics")
    all_of = F.transform(gone, lambda _topic: F.array(F.lit(None).cast("long")))
    moved = told.select(
        *GROUP,
        "member_id",
        "position",
        "at_ms",
        F.when(~is_any(TopicsGone), is_any(PartitionsAssigned)).alias("is_grant"),
        F.explode(F.coalesce("partitions", F.map_from_arrays(gone, all_of))).alias(
            "topic", "numbers"
        ),
    ).select("*", F.explode("numbers").alias("partition"))
    backwards = Window.partitionBy(*GROUP, "topic").orderBy(F.desc("position"))
    gone_next = F.last(_moment(F.col("is_grant").isNull()), ignorenulls=True)
    return moved.withColumn("gone", gone_next.over(_passed(backwards))).where(
        "is_grant is not null"
    )


def _moment(condition: Column) -> Column:
    """Position and time, of rows like that."""
    return F.when(condition, F.struct("position", "at_ms"))


def _passed(backwards: WindowSpec) -> WindowSpec:
    """What a walk back through time has passed: what comes later. Frames that end with the last row
    would be computed anew for each row, these are not."""
    return backwards.rowsBetween(Window.unboundedPreceding, -1)
