"""The partitions that each rebalance moved, and the fewest that it could have moved.

A partition *moved* if its owner at the end of the rebalance is not its owner at the beginning; this
includes partitions without an owner at the beginning. A static member and its replacement are the
same owner. The end of a topic moves nothing.

*The least* is the cost of the best assignment that gives each member as many partitions as it has
at the end: of the partitions owned at the end, each member keeps what it had, up to that number. So
`least = owned - sum(min(had, has))` over the members. Partitions that a member has both times
cancel out: `least = moved - sum(min(gained, lost))`, where lost partitions have other owners at the
end. Partitions that had no owner, or whose owner left, must all move.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.events.group_events import TopicsGone
from gateway.events.member_events import (
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRevoked,
)
from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.windows import but_this, from_here, newest, so_far

_TOPIC = (*GROUP, "topic")


def moves(rounds: DataFrame) -> DataFrame:
    """For each round of `with_rounds` with partitions: `partitions_moved`,
    `partitions_moved_least`, and `left_over`, the released partitions without a new owner."""
    owners = _owners(rounds)
    has, had = F.col("has"), F.col("had")
    is_moved = has.isNotNull() & ~has.eqNullSafe(had)
    gained = F.struct(has.alias("actor"), F.lit(1).alias("gained"), F.lit(0).alias("lost"))
    lost = F.struct(had.alias("actor"), F.lit(0).alias("gained"), F.lit(1).alias("lost"))
    is_left = has.isNull() & F.col("is_released")
    left = F.struct(had.alias("actor"), F.lit(0).alias("gained"), F.lit(0).alias("lost"))
    sides = F.array(
        F.when(is_moved, gained),
        F.when(is_moved & had.isNotNull(), lost),
        F.when(is_left, left),
    )
    by_actor = (
        owners.select(
            *GROUP,
            "round",
            is_left.cast("long").alias("left_over"),
            F.explode(F.array_compact(sides)).alias("side"),
        )
        .groupBy(*GROUP, "round", "side.actor")
        .agg(
            F.sum("side.gained").alias("gained"),
            F.sum("side.lost").alias("lost"),
            F.sum("left_over").alias("left_over"),
        )
    )
    return by_actor.groupBy(*GROUP, "round").agg(
        F.sum("gained").alias("partitions_moved"),
        F.sum(F.col("gained") - F.least("gained", "lost")).alias("partitions_moved_least"),
        F.sum("left_over").alias("left_over"),
    )


def _owners(rounds: DataFrame) -> DataFrame:
    """The owner of each partition before a round (`had`) and after it (`has`)."""
    told = _of_partitions(rounds)
    partition = (*_TOPIC, "life", "partition")
    before = F.lag("after").over(so_far("topic", "life", "partition"))
    known = told.withColumn(
        "before", F.when(is_any(PartitionsAssigned), before).otherwise(F.col("actor"))
    )
    # A deleted topic has no partitions to own.
    is_gone = F.coalesce(F.col("gone_in") <= F.col("round"), F.lit(False))
    return (
        known.groupBy(*partition, "round", is_gone.alias("is_gone"))
        .agg(
            F.min_by("before", "place").alias("had"),
            F.max_by("after", "place").alias("has"),
            F.max_by(is_any(PartitionsReleased), "place").alias("is_released"),
        )
        .where(~F.col("is_gone"))
    )


def _of_partitions(rounds: DataFrame) -> DataFrame:
    """One row for each partition of an event, with its owner `after` the event. A recreated topic
    begins another `life`; `gone_in` is the round in which this life ended."""
    moved = rounds.where(is_any(PartitionsAssigned, PartitionsReleased, PartitionsRevoked))
    topics = moved.select(
        *GROUP,
        "round",
        "place",
        "event",
        "actor",
        F.explode("partitions").alias("topic", "numbers"),
    )
    gone = rounds.where(is_any(TopicsGone)).select(
        *GROUP, "round", "place", "event", F.explode("topics").alias("topic")
    )
    both = topics.unionByName(gone, allowMissingColumns=True)
    is_gone = is_any(TopicsGone)
    life = F.sum(is_gone.cast("long")).over(so_far("topic"))
    gone_in = newest(F.when(is_gone, F.col("round")), but_this(from_here("topic")))
    told = both.select("*", life.alias("life"), gone_in.alias("gone_in")).where(~is_gone)
    return told.select("*", F.explode("numbers").alias("partition")).withColumn(
        "after", F.when(~is_any(PartitionsReleased), F.col("actor"))
    )
