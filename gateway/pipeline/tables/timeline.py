"""How long each group and each member was in which state, and which protocol the member spoke.

States that lasted less than a millisecond are left out. A member that is told of without having
joined was there before the first event of its group. When the gateway has another process, a
classic group goes on from where its last rebalance was complete; that counts from the last event of
the process before, because nothing says when it ended.
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
    """How long a group, or one of its members, was in one state."""

    member_id: str | None
    """Null in the rows of the group itself."""
    instance_id: str | None
    """Of a static member, as far as any event says it."""
    kind: Literal["classic", "consumer"] | None
    """Of the group; null if no event says it."""
    protocol: Literal["classic", "consumer"] | None
    """What the member speaks; null in rows of the group, and if no event says it."""
    state: str | None
    """Of a classic group: Empty, PreparingRebalance, CompletingRebalance, Stable; its members are
    in the same. Of a consumer group: Empty, Assigning (there is no target yet for its epoch),
    Reconciling (until the last change in that epoch that is told), Stable. Of a classic member of a
    consumer group: PrepareRebalance, CompletingRebalance, Stable. Of a native member:
    UnrevokedPartitions as long as it has partitions that it is to give up, otherwise Stable. Null
    if no event says it."""
    from_ms: int
    is_from_before: bool
    """The member was there before the first event of its group, which was at `from_ms`."""
    to_ms: int | None
    """Null: still."""
    ended_by: str | None
    """The event that ended it; `gateway_restarted` if it was forgotten with a process."""
    cause: str | None
    """Why the member went, if that ended it."""


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
    """From each change to the next; who is not there is in no state."""
    # Of one millisecond only the last change counts, and that may be back to what was so before.
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
    """Those that are not as the one before."""
    before = F.lag("so").over(so_far("member_id"))
    return points.withColumn("before", before).where(~F.col("so").eqNullSafe(F.col("before")))
