"""Granted intervals: from the assignment of a partition to its release by the same member.

These two events suffice for groups of either kind, with `topics_gone`, which ends all intervals of
a topic. If one of them is missing, a hole in the history contains it. A member that went without a
release owns nothing any more either: its release may have been told beside the group's sequence,
where no hole shows.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from gateway.events.group_events import TopicsGone
from gateway.events.member_events import (
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    PartitionsAssigned,
    PartitionsReleased,
)
from gateway.pipeline.group_histories import GROUP, GroupHistories
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.intervals import ENDLESS

PARTITION = (*GROUP, "topic", "partition")

_DEPARTURES = (MemberLeft, MemberFenced, MemberReplaced)


def granted(histories: GroupHistories) -> DataFrame:
    """Intervals of `member_id` with positions and times. `leaves_gap` says that no member owns the
    partition from the end to the next interval; it is false if the topic ended or the end was not
    seen.

    A release without an assignment means that the member had the partition since the last hole, or
    since before the first event. An assignment without a release ends at a hole if the next event
    after the hole concerns another member; otherwise it never ends.
    """
    own = _backwards("member_id")
    found = _with_lost(_changes(histories)).withColumns(
        {
            "released": F.last(_moment(~F.col("is_grant")), ignorenulls=True).over(_passed(own)),
            "lost_next": F.last("lost", ignorenulls=True).over(_passed(own, and_this=True)),
            "earlier": F.lead(F.struct("is_grant", "position", "over", "lost")).over(own),
        }
    )
    was_over = F.coalesce(F.col("earlier.over.position") < F.col("position"), F.lit(False))
    had_it = F.coalesce(F.col("earlier.is_grant"), F.lit(False)) & ~was_over
    had_it &= F.col("earlier.lost").isNull()
    may_have_got_it = F.col("earlier").isNull() | F.coalesce(
        F.col("hole.position") >= F.col("earlier.position"), F.lit(False)
    )
    is_unseen = ~F.col("is_grant") & ~had_it & may_have_got_it
    here = F.struct("position", "at_ms")
    begun = F.when(F.col("is_grant"), here).otherwise(F.col("hole"))
    ended = F.when(is_unseen, here).otherwise(F.least("released", "over", "lost_next"))
    is_followed = F.col("ended").eqNullSafe(F.col("gone")) | F.col("ended").eqNullSafe(
        F.col("lost_next")
    )
    return (
        found.where((F.col("is_grant") & ~had_it) | is_unseen)
        .withColumns({"begun": begun, "ended": ended})
        .select(
            *PARTITION,
            "member_id",
            F.coalesce("begun.position", F.lit(0)).alias("from_position"),
            F.col("begun.at_ms").alias("from_ms"),
            F.coalesce("ended.position", F.lit(ENDLESS)).alias("to_position"),
            F.col("ended.at_ms").alias("to_ms"),
            (~is_followed).alias("leaves_gap"),
        )
    )


def _with_lost(changes: DataFrame) -> DataFrame:
    """Adds `lost` to a grant: the hole that may contain its release. The first event after the hole
    concerns another member, and the grantee afterwards never appears again, or is granted the
    partition again, or releases after another hole what it may have got there. `over` is the end of
    the topic, or the member's departure without a release."""
    all_ = _backwards()
    is_new = ~F.col("hole").eqNullSafe(F.lead("hole").over(all_))
    known = changes.withColumn("behind", F.when(is_new, F.struct("position", "hole")))
    behind = F.last("behind", ignorenulls=True).over(_passed(all_))
    own = F.lag(F.struct("position", "is_grant", "hole")).over(_backwards("member_id"))
    had_it = ~F.col("own.is_grant") & F.col("own.hole").eqNullSafe(F.col("behind.hole"))
    is_lost = F.col("own").isNull() | ((F.col("behind.position") < F.col("own.position")) & ~had_it)
    has_release = F.coalesce(~F.col("own.is_grant"), F.lit(False))
    return known.withColumns({"behind": behind, "own": own}).withColumns(
        {
            "lost": F.when(F.col("is_grant") & is_lost, F.col("behind.hole")),
            "over": F.least("gone", F.when(~has_release, F.col("left"))),
        }
    )


def _changes(histories: GroupHistories) -> DataFrame:
    """One row for each partition granted or released, with the next end of its topic (`gone`) and
    the next departure of the member (`left`)."""
    told = histories.of(PartitionsAssigned, PartitionsReleased, TopicsGone, *_DEPARTURES)
    of_member = Window.partitionBy(*GROUP, "member_id").orderBy(F.desc("position"))
    left_next = F.last(_moment(is_any(*_DEPARTURES)), ignorenulls=True)
    gone = F.array_distinct("topics")
    all_of = F.transform(gone, lambda _topic: F.array().cast("array<long>"))
    moved = told.withColumn("left", left_next.over(_passed(of_member))).select(
        *GROUP,
        "member_id",
        "position",
        "at_ms",
        "hole",
        "left",
        F.when(~is_any(TopicsGone), is_any(PartitionsAssigned)).alias("is_grant"),
        F.explode(F.coalesce("partitions", F.map_from_arrays(gone, all_of))).alias(
            "topic", "numbers"
        ),
    )
    backwards = Window.partitionBy(*GROUP, "topic").orderBy(F.desc("position"))
    gone_next = F.last(_moment(F.col("is_grant").isNull()), ignorenulls=True)
    return (
        moved.withColumn("gone", gone_next.over(_passed(backwards)))
        .where("is_grant is not null")
        .select("*", F.explode("numbers").alias("partition"))
        .drop("numbers")
    )


def _moment(condition: Column) -> Column:
    """Position and time of rows that satisfy the condition."""
    return F.when(condition, F.struct("position", "at_ms"))


def _backwards(*names: str) -> WindowSpec:
    """The rows of each partition, latest first."""
    return Window.partitionBy(*PARTITION, *names).orderBy(F.desc("position"))


def _passed(backwards: WindowSpec, *, and_this: bool = False) -> WindowSpec:
    """The later rows, in a backwards order. A frame that ends with the last row would be recomputed
    for each row; this one is not."""
    return backwards.rowsBetween(
        Window.unboundedPreceding, Window.currentRow if and_this else Window.currentRow - 1
    )
