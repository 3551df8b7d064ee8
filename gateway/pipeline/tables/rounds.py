"""Assigns each change of a group to a rebalance.

A rebalance of a consumer group begins with a new group epoch, one of a classic group when the group
leaves Empty or Stable. Each lasts until the next one. Members whose arrival or departure in the
same millisecond caused it belong to its beginning.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.events.group_events import (
    GroupConverted,
    GroupEpochBumped,
    GroupStateMoved,
    TopicsGone,
)
from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    PartitionsReleased,
)
from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.windows import but_this, from_here, newest, so_far

REPLACED, WENT = "replaced", "went"


def with_rounds(changes: DataFrame) -> DataFrame:
    """`changes` with `round` (0 before the first known rebalance), `is_begin` for the event that
    begins it, `is_prelude` for the events that caused it, `actor`, which is the same for all ids of
    a static member, and `release`, which says why a release was not requested by a rebalance."""
    rows = (
        changes.repartition(*GROUP)
        .select(
            "*",
            _is_begin().alias("is_begin"),
            F.coalesce("instance_id", "member_id").alias("actor"),
            _release().alias("release"),
        )
        .withColumn("begun", F.sum(F.col("is_begin").cast("long")).over(so_far()))
    )
    next_ms = newest(F.when(F.col("is_begin"), F.col("at_ms")), but_this(from_here()))
    turns = is_any(TopicsGone, MemberJoined, MemberLeft, MemberFenced, MemberReplaced)
    # What a conversion assigns and releases is told after it, before the rebalance that it begins.
    is_conversion = F.max(is_any(GroupConverted)).over(so_far("at_ms", "begun"))
    is_prelude = turns | is_conversion | F.coalesce(F.col("release") == WENT, F.lit(False))
    rows = rows.select(
        "*",
        F.coalesce((F.col("at_ms") == next_ms) & is_prelude, F.lit(False)).alias("is_prelude"),
    )
    return rows.withColumn("round", F.col("begun") + F.col("is_prelude").cast("long")).drop("begun")


def _is_begin() -> Column:
    leaves = (F.col("to_state") == "PreparingRebalance") & F.col("from_state").isin(
        "Empty", "Stable"
    )
    return is_any(GroupEpochBumped) | (is_any(GroupStateMoved) & leaves)


def _release() -> Column:
    """Whether the member goes, or continues under another id: its next event tells."""
    is_told_with_it = F.lead("at_ms").over(so_far("member_id")) == F.col("at_ms")
    goes = F.lead("event").over(so_far("member_id"))
    why = F.when(goes.isin(MemberLeft.name, MemberFenced.name), WENT).when(
        goes == MemberReplaced.name, REPLACED
    )
    return F.when(is_any(PartitionsReleased) & is_told_with_it, why)
