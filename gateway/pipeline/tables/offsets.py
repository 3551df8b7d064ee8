"""What was committed for each partition, and which of it went back.

An owner may go back within what it has consumed itself: a seek. It is a regression if another
member commits a lower offset, or if an owner goes back behind its predecessor. It is also a
regression if a member goes back while the partition has no owner.

- No event says whether a transaction was committed. It may have been aborted and its records
  consumed again, so nothing is compared with a transactional commit. The commit itself is compared
  with its owner's start and with other commits: a member that continues where the group is never
  goes below those, whatever becomes of the transaction.
- The owner of a partition is known from the first event that names it. Without one (the files start
  later, or the cluster's own coordinator has the group) nothing counts as a regression.
- A recreated topic and a deleted group start over, without an earlier offset.
- An owner that was told less than what had been stored continues from there, which is not going
  back. The loss is in `lost_commits`.
"""

from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from gateway.events.offset_events import NO_MEMBER, OffsetsCommitted, OffsetsDeleted, OffsetsFetched
from gateway.pipeline.group_histories import GroupHistories
from gateway.pipeline.parsing import is_any
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.offset_history import LIFE, offset_history
from gateway.pipeline.tables.row import Row

Finding: TypeAlias = Literal["seek", "reset", "regression"]

_FIRST, _THIS = Window.unboundedPreceding, Window.currentRow


class OffsetRow(Row):
    """The commits of one member for a partition within some seconds, from one event."""

    topic: str
    partition: int
    member_id: str
    """The member that committed; empty if it is not in the group, as when an admin resets
    offsets."""
    owner_id: str | None
    """The member that the partition was granted to then; null if there was none, or it is
    unknown."""
    is_transactional: bool
    """Whether the commits count only if their transaction is committed, which is unknown."""
    commits: int
    """The number of stored commits."""
    first: int
    """The offset of the first commit."""
    lowest: int
    last: int
    from_ms: int
    """When the first one was stored, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """When the last one was stored, in milliseconds since 1970 (UTC)."""
    before: int | None
    """The offset in force before, as last committed or fetched; null if there was none, or it is
    unknown."""
    started_at: int | None
    """The committed offset from which the owner continued when it got the partition; null if there
    was none, or it is unknown. If the owner did not fetch it, the offset in force then."""
    finding: Finding | None
    """What went back. `seek`: an owner went back within what it has consumed itself, or a member
    that may be the owner did. `reset`: the offset was set from outside the group (also forwards, if
    owners of the partition are known), or the topic was recreated. `regression`: a member other
    than the owner went back, also while the partition had no owner; or the owner went back behind
    its start."""
    gateway_id: str
    """The gateway that told of it; with its sequence (null: the group's) and number."""
    process_id: str | None
    sequence: int


def offsets(histories: GroupHistories) -> DataFrame:
    """All commits."""
    return (
        _with_starts(with_stored(histories))
        .where(is_any(OffsetsCommitted))
        .withColumn("finding", _finding())
        .select(*struct_of(OffsetRow).names)
    )


# -- the history of a partition: each step has the same window, so that it is sorted once ----------


def with_stored(histories: GroupHistories) -> DataFrame:
    """The history of each partition, with its owner and its stored offset at each event."""
    return _with_offsets(_with_owners(offset_history(histories)))


def _with_owners(story: DataFrame) -> DataFrame:
    """Adds `granted_to`: the member with the latest grant. `holder`: the owner as a struct; its
    `id` is null if the partition has no owner, and the struct is null while the owner is unknown.
    `acting_id`: the member that acted; an event without a member id counts as the owner's where
    owners may omit it."""
    member_id = F.col("member_id")
    is_given_up = is_any(PartitionsReleased) & F.coalesce(
        F.col("granted_to") == member_id, F.lit(True)
    )
    moved = F.when(is_any(PartitionsAssigned), F.struct(member_id.alias("id"))).when(
        is_given_up, F.struct(F.lit(None).cast("string").alias("id"))
    )
    is_unsaid = (member_id == NO_MEMBER) & (is_any(OffsetsFetched) | F.col("is_transactional"))
    return (
        story.withColumn("granted_to", _so_far(F.when(is_any(PartitionsAssigned), member_id)))
        .withColumns({"holder": _so_far(moved), "owner_before": _earlier(moved)["id"]})
        .withColumn("owner_id", F.col("holder.id"))
        .withColumn("acting_id", F.when(is_unsaid, F.col("owner_id")).otherwise(member_id))
        .withColumn("is_owner", _known_true(F.col("acting_id") == F.col("owner_id")))
    )


def _with_offsets(story: DataFrame) -> DataFrame:
    """Adds `began`: when the owner got the partition. `own`: when it last fetched or committed
    before this event. `stored`: the latest commit before this event, without an offset if that was
    deleted. `before`: the offset in force then."""
    begins = is_any(PartitionsAssigned) & ~F.col("owner_before").eqNullSafe(F.col("member_id"))
    counts = is_any(OffsetsCommitted) & ~F.col("is_transactional")
    last = F.col("last").alias("offset")
    stored = counts | is_any(OffsetsDeleted)
    in_force = F.when(stored, F.struct(last)).when(is_any(OffsetsFetched), F.struct("offset"))
    is_own = F.col("is_owner") & is_any(OffsetsFetched, OffsetsCommitted)
    return story.withColumns(
        {
            "begins": begins,
            "began": _so_far(F.when(begins, F.col("at"))),
            "own": _earlier(F.when(is_own, F.col("at"))),
            "stored": _earlier(F.when(stored, F.struct("at", last))),
            "before": _earlier(in_force)["offset"],
        }
    )


def _with_starts(story: DataFrame) -> DataFrame:
    """Adds `start`: what the owner was told after it `began`, unless it had committed without a
    fetch. `started_at`: where it continued from, which without a `start` is the latest earlier
    commit."""
    is_start = (
        is_any(OffsetsFetched) & F.col("is_owner") & ~_known_true(F.col("own") > F.col("began"))
    )
    started_at = F.when(F.col("has_start"), F.col("start.offset")).when(
        F.col("is_owner"), F.col("found.stored.offset")
    )
    return (
        story.withColumns(
            {
                "start": _so_far(F.when(is_start, F.struct("at", "offset"))),
                "found": _so_far(F.when(F.col("begins"), F.struct("stored"))),
            }
        )
        .withColumn(
            "has_start", F.col("is_owner") & _known_true(F.col("start.at") > F.col("began"))
        )
        .withColumn("started_at", started_at)
    )


def _finding() -> Column:
    lowest = F.col("lowest")
    is_named = F.col("member_id") != NO_MEMBER
    has_no_owner = F.col("owner_id").isNull()
    is_nobodys = has_no_owner & F.col("holder").isNotNull()
    is_other = _known_true(F.col("acting_id") != F.col("owner_id")) | (is_named & is_nobodys)
    is_outside = ~is_named & ~F.col("is_transactional") & has_no_owner
    turns_back = ~F.col("is_transactional") & (lowest < F.col("first"))
    is_lower = turns_back | _known_true(lowest < F.col("before"))
    is_behind = _known_true(lowest < F.col("started_at"))
    goes_back = turns_back | _known_true(lowest < F.col("stored.offset"))
    started_lower = F.col("has_start") & _known_true(
        (F.col("stored.at") < F.col("began"))
        & (F.coalesce("start.offset", F.lit(-1)) < F.col("stored.offset"))
    )
    return (
        F.when(F.col("is_gone_soon") & (is_lower | is_behind | goes_back), "reset")
        .when(is_other, F.when(is_lower, "regression"))
        .when(is_behind, "regression")
        .when(is_outside, F.when(is_nobodys | is_lower, "reset"))
        .when(goes_back & ~started_lower, "seek")
    )


def _known_true(condition: Column) -> Column:
    """False if unknown."""
    return F.coalesce(condition, F.lit(False))


def _so_far(value: Column) -> Column:
    """The latest value, this event included."""
    return F.last(value, ignorenulls=True).over(_window().rowsBetween(_FIRST, _THIS))


def _earlier(value: Column) -> Column:
    """The latest value before this event."""
    return F.last(value, ignorenulls=True).over(_window().rowsBetween(_FIRST, _THIS - 1))


def _window() -> WindowSpec:
    return Window.partitionBy(*LIFE).orderBy("at")
