"""What the engine granted: from an assignment to the release by that member.

The two events are all that it takes, for groups of any kind, and `topics_gone`, after which nothing
is told of a topic's partitions any more. If one of them is missing, a hole in the story has it. But
who has gone without a release has nothing any more either: that may have been told beside the
group's sequence, where no hole can be seen.
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
    """Intervals of `member_id`, with positions and times. One that `leaves_gap` is followed by
    nobody's, until the next one: not if it ended with its topic, or nobody saw its end.

    A release without an assignment: the member had it since the last hole, or since before the
    first event. An assignment without a release ends with a hole as well, if somebody else is told
    of behind it; otherwise never.
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
    """`lost` of a grant: the hole that may have its release. The first who is told of behind it is
    somebody else; and then the member is never told of again, or given it anew, or gives up behind
    another hole what it may have got there. `over`: its topic's end, or its own without a release.
    """
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
    """A row for each partition that was given or released, with the next end of its topic (`gone`)
    and the next departure of the member (`left`)."""
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
    """Position and time, of rows like that."""
    return F.when(condition, F.struct("position", "at_ms"))


def _backwards(*names: str) -> WindowSpec:
    """Through what is told of each partition."""
    return Window.partitionBy(*PARTITION, *names).orderBy(F.desc("position"))


def _passed(backwards: WindowSpec, *, and_this: bool = False) -> WindowSpec:
    """What a walk back through time has passed: what comes later. Frames that end with the last row
    would be computed anew for each row, these are not."""
    return backwards.rowsBetween(
        Window.unboundedPreceding, Window.currentRow if and_this else Window.currentRow - 1
    )
