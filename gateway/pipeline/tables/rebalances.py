"""The cause, the duration and the cost of each rebalance.

A consumer group has one rebalance per group epoch, which lasts until the next one. A rebalance of a
classic group begins when the group leaves Empty or Stable, and lasts until it next does.
"""

from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.events.group_events import (
    GroupConverted,
    GroupEpochBumped,
    GroupStateMoved,
    TargetComputed,
)
from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateMoved,
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRevoked,
)
from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.parsing import is_any
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.changes import CLASSIC, CONSUMER
from gateway.pipeline.tables.moves import moves
from gateway.pipeline.tables.revocations import revocations
from gateway.pipeline.tables.rounds import with_rounds
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.windows import so_far, whole


class RebalanceRow(Row):
    """One rebalance."""

    kind: Literal["classic", "consumer"]
    """The group's kind."""
    epoch: int | None
    """The group epoch; for a classic group the generation that the rebalance led to."""
    cause: str
    """For a consumer group the cause of its epoch. For a classic group member_joined,
    member_removed, converted, or member_rejoined: a member of the group joined again, perhaps with
    another subscription."""
    from_ms: int
    to_ms: int | None
    """When a classic group was Stable or Empty again; for a consumer group the last change of its
    epoch. Null if the rebalance was superseded, or has not ended."""
    is_superseded: bool
    """Whether the next rebalance began before this one was complete: before a classic group was
    Stable or Empty; before a consumer group with members had a target, its members had released
    what they had to, or the released partitions had new owners."""
    members: int
    """Members when it ended, or when the next one began."""
    classic_members: int
    """Members that spoke the classic protocol."""
    members_disturbed: int
    """Members from before the rebalance that were interrupted; a static member counts even under a
    new id. In a classic group this is all of them, because all rejoin; in a consumer group it is
    those that rejoined or whose partitions changed."""
    classic_members_disturbed: int
    """Disturbed members that spoke the classic protocol."""
    partitions_moved: int
    """Partitions whose owner at the end is not the owner at the beginning, including those that had
    none. A static member under a new id is the same owner."""
    partitions_moved_least: int
    """The fewest moves of any assignment that gives each member as many partitions as it has at the
    end: each member keeps what it had, up to that number. Partitions that had no owner, or whose
    owner left, must all move; of the others only the excess."""


_ROUND = (*GROUP, "round")


def rebalances(changes: DataFrame) -> DataFrame:
    """See `RebalanceRow`."""
    rounds = with_rounds(changes)
    parts = (_outlines(rounds), _disturbances(rounds), moves(rounds), _pending_revocations(rounds))
    stacked = parts[0]
    for part in parts[1:]:
        stacked = stacked.unionByName(part, allowMissingColumns=True)
    names = [name for name in stacked.columns if name not in _ROUND]
    together = stacked.groupBy(*_ROUND).agg(*(F.max(name).alias(name) for name in names))
    last = F.max("round").over(whole())
    known = together.select(
        "*", (F.col("round") < last).alias("has_next"), _end().alias("to_ms")
    ).where(F.col("from_ms").isNotNull())
    is_classic = F.col("kind") == CLASSIC
    stayed = F.col("members") - F.coalesce("came", F.lit(0))
    values = {
        "is_superseded": F.col("has_next") & F.col("to_ms").isNull(),
        "members_disturbed": F.when(is_classic, stayed).otherwise(_count("disturbed")),
        "classic_members_disturbed": F.when(is_classic, stayed).otherwise(
            _count("classic_disturbed")
        ),
        "partitions_moved": _count("partitions_moved"),
        "partitions_moved_least": _count("partitions_moved_least"),
    }
    return known.withColumns(values).select(*struct_of(RebalanceRow).names)


def _count(name: str) -> Column:
    return F.coalesce(name, F.lit(0)).cast("long")


def _end() -> Column:
    is_complete = (F.col("members") == 0) | (
        F.col("has_target") & (_count("revocations") == 0) & (_count("left_over") == 0)
    )
    return F.when(F.col("kind") == CLASSIC, F.col("completed_ms")).when(
        is_complete, F.col("last_change_ms")
    )


def _outlines(rounds: DataFrame) -> DataFrame:
    """Time, cause and kind of each rebalance, and the members at its end."""
    is_begin = F.col("is_begin")
    is_after = ~F.col("is_prelude")  # the cause of a rebalance is not part of the earlier one
    kind = F.when(is_any(GroupEpochBumped), CONSUMER).otherwise(CLASSIC)
    is_complete = is_any(GroupStateMoved) & F.col("to_state").isin("Stable", "Empty")
    is_change = is_any(
        GroupEpochBumped,
        TargetComputed,
        MemberStateMoved,
        PartitionsRevoked,
        PartitionsReleased,
        PartitionsAssigned,
    )
    return rounds.groupBy(*_ROUND).agg(
        F.max(F.when(is_begin, kind)).alias("kind"),
        F.max(F.when(is_any(GroupEpochBumped, GroupStateMoved), F.col("epoch"))).alias("epoch"),
        _cause(),
        F.max(F.when(is_begin, F.col("at_ms"))).alias("from_ms"),
        F.min(F.when(is_complete, F.col("at_ms"))).alias("completed_ms"),
        F.max(F.when(is_change & is_after, F.col("at_ms"))).alias("last_change_ms"),
        F.max(is_any(TargetComputed)).alias("has_target"),
        F.max_by("members", F.when(is_after, F.col("place"))).alias("members"),
        F.max_by("classic_members", F.when(is_after, F.col("place"))).alias("classic_members"),
    )


def _cause() -> Column:
    is_prelude = F.col("is_prelude")
    of_epoch = F.max(F.when(is_any(GroupEpochBumped), F.col("cause")))
    converted = F.max(F.when(is_prelude & is_any(GroupConverted), "converted"))
    turn = F.when(is_any(MemberJoined), "member_joined").when(
        is_any(MemberLeft, MemberFenced), "member_removed"
    )
    turned = F.max_by(turn, F.when(is_prelude & turn.isNotNull(), F.col("place")))
    return F.coalesce(of_epoch, converted, turned, F.lit("member_rejoined")).alias("cause")


def _disturbances(rounds: DataFrame) -> DataFrame:
    """For each round, how many of the members at its end `came` or were disturbed."""
    # A replaced member's partitions are released and assigned to its successor in the same moment.
    is_handover = F.max(is_any(MemberReplaced)).over(whole("actor", "at_ms"))
    is_own = ~F.col("is_handover") & F.col("release").isNull()
    is_moved = is_any(PartitionsRevoked, PartitionsReleased, PartitionsAssigned) & is_own
    rejoins = is_any(MemberStateMoved) & (F.col("to_state") == "PrepareRebalance")
    by_actor = (
        rounds.where(F.col("actor").isNotNull())
        .withColumn("is_handover", is_handover)
        .groupBy(*_ROUND, "actor")
        .agg(
            F.sum(_one(F.col("is_present")) - _one(F.col("was_present"))).alias("more"),
            F.max_by("is_present", "place").alias("is_there"),
            F.max_by("protocol", "place").alias("protocol"),
            F.max(is_moved | rejoins).alias("is_touched"),
        )
        .where("is_there")
    )
    came = F.col("more") > 0
    disturbed = ~came & F.col("is_touched")
    return by_actor.groupBy(*_ROUND).agg(
        F.sum(_one(came)).alias("came"),
        F.sum(_one(disturbed)).alias("disturbed"),
        F.sum(_one(disturbed & (F.col("protocol") == CLASSIC))).alias("classic_disturbed"),
    )


def _one(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)


def _pending_revocations(rounds: DataFrame) -> DataFrame:
    """How many partitions members still had to give up at the end of each round."""
    points = rounds.select(*GROUP, "place", "is_begin").unionByName(
        revocations(rounds).select(*GROUP, "place", "revocations"), allowMissingColumns=True
    )
    known = points.select(
        *GROUP,
        "place",
        F.sum(_one(F.col("is_begin"))).over(so_far()).alias("round"),
        F.sum(F.coalesce("revocations", F.lit(0))).over(so_far()).alias("open"),
    )
    return known.groupBy(*_ROUND).agg(F.max_by("open", "place").alias("revocations"))
