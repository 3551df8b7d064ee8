"""The states of each group and each member over time, with the member's protocol.

States shorter than a millisecond are left out. A member that appears without having joined was
there before the first event of its group. When a new gateway process takes over, a classic group
continues from its last completed rebalance. That counts from the last event of the old process,
because its end is not known.
"""

from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.member_states import MEMBER, member_states, nothing
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.windows import so_far


class TimelineRow(Row):
    """The time that a group or a member was in one state."""

    member_id: str | None
    """Null in the rows of the group itself."""
    instance_id: str | None
    """The instance id of a static member, if any event mentions it."""
    kind: Literal["classic", "consumer"] | None
    """The group's kind; null if unknown."""
    protocol: Literal["classic", "consumer"] | None
    """The member's protocol; null in rows of the group, and if unknown."""
    state: str | None
    """A classic group is Empty, PreparingRebalance, CompletingRebalance or Stable, and so are its
    members. A consumer group is Empty, Assigning (its epoch has no target yet), Reconciling (until
    the last event of its epoch) or Stable. A classic member of a consumer group is in
    PrepareRebalance, CompletingRebalance or Stable. A native member is in UnrevokedPartitions while
    it has partitions to give up, otherwise Stable. Null if unknown."""
    from_ms: int
    is_from_before: bool
    """Whether the member was there before the first event of its group, which was at `from_ms`."""
    to_ms: int | None
    """Null if it has not ended."""
    ended_by: str | None
    """The event that ended it; `gateway_restarted` if the process forgot it."""
    cause: str | None
    """The reason for the member's departure, if that ended it."""


def timeline(changes: DataFrame) -> DataFrame:
    """See `TimelineRow`."""
    changes = changes.repartition(*GROUP)
    points = _group_states(changes).unionByName(member_states(changes))
    is_so = F.when(F.col("is_present"), F.struct("kind", "protocol", "state"))
    return _intervals(points.withColumn("so", is_so)).select(*struct_of(TimelineRow).names)


def _group_states(changes: DataFrame) -> DataFrame:
    return changes.select(
        *GROUP,
        "place",
        "at_ms",
        "event",
        nothing().alias("cause"),
        nothing().alias("member_id"),
        nothing().alias("instance_id"),
        F.lit(True).alias("is_present"),
        "kind",
        nothing().alias("protocol"),
        "state",
        F.lit(False).alias("is_from_before"),
    )


def _intervals(points: DataFrame) -> DataFrame:
    """Intervals from each change to the next. An absent member has no state."""
    # Of one millisecond only the last change counts; it may restore the earlier state.
    next_ms = F.lead("at_ms").over(so_far("member_id"))
    lasting = _differing(points).withColumn("next_ms", next_ms)
    intervals = _differing(lasting.where(~F.col("at_ms").eqNullSafe(F.col("next_ms"))))
    return intervals.select(
        *MEMBER,
        "instance_id",
        "so",
        "so.*",
        F.col("at_ms").alias("from_ms"),
        "is_from_before",
        F.lead("at_ms").over(so_far("member_id")).alias("to_ms"),
        F.lead("event").over(so_far("member_id")).alias("ended_by"),
        F.lead("cause").over(so_far("member_id")).alias("cause"),
    ).where(F.col("so").isNotNull())


def _differing(points: DataFrame) -> DataFrame:
    """The points that differ from the one before."""
    before = F.lag("so").over(so_far("member_id"))
    return points.withColumn("before", before).where(~F.col("so").eqNullSafe(F.col("before")))
