"""What was committed of each partition, and what of it went back.

An owner may go back within what it has consumed itself: a seek. Whoever else commits a lower
offset, or goes back behind where its predecessor was, undoes what was done: a regression; a member
also while nobody owns the partition.

- Of a transactional commit no event says whether its transaction was committed; it may have been
  aborted, and the same consumed again. So nothing is compared with one. It is itself compared with
  what its owner started from and with the other commits: nobody undercuts those who goes on where
  the group is, whatever becomes of the transaction.
- Who owns a partition is known from the first event that says so. Where none has (the files start
  late; the cluster's own coordinator has the group) nothing is called a regression.
- A topic that was made anew and a group that was deleted begin anew, without an offset before.
- An owner that was told less than what had been stored goes on from there, and does not go back:
  what was lost is in `lost_commits`.
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
    """What one member committed of a partition within some seconds, as one event tells it."""

    topic: str
    partition: int
    member_id: str
    """Who committed; empty if it was nobody in the group, as when an admin resets offsets."""
    owner_id: str | None
    """The member to which the partition was granted then; null if to none, or if nobody knows."""
    is_transactional: bool
    """Whether they count only once their transaction is committed, which is not known."""
    commits: int
    """How many were stored."""
    first: int
    """The offset of the first one."""
    lowest: int
    last: int
    from_ms: int
    """When the first one was stored, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """When the last one was stored, in milliseconds since 1970 (UTC)."""
    before: int | None
    """The offset that was in force before them, as committed or fetched last; null if there was
    none, or nobody knows."""
    started_at: int | None
    """The committed offset from which the owner went on when it got the partition; null if there
    was none, or nobody knows. Of an owner that did not ask for it, the one in force then."""
    finding: Finding | None
    """What went back. `seek`: an owner, within what it has consumed itself, or somebody of whom
    nobody knows whether it is the owner. `reset`: the offset was set from outside of the group
    (forwards too, if owners of the partition are known), or the topic was made anew. `regression`:
    somebody other than the owner went back, also a member while the partition was nobody's; or an
    owner behind what it started from."""
    gateway_id: str
    """Who told it, and by which number of which sequence (null: that of the group)."""
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


# -- the story of a partition: each step has the same window, so that it is sorted once ------------


def with_stored(histories: GroupHistories) -> DataFrame:
    """The story of each partition with who owns it and what was stored, at each event."""
    return _with_offsets(_with_owners(offset_history(histories)))


def _with_owners(story: DataFrame) -> DataFrame:
    """`granted_to`: who got it last. `holder`: who has it, a struct whose `id` is null if nobody
    has, and null itself as long as nobody knows. `acting_id`: who did it; whoever does not say so
    where owners need not say it, is taken for the owner."""
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
        .withColumn("is_owner", _surely(F.col("acting_id") == F.col("owner_id")))
    )


def _with_offsets(story: DataFrame) -> DataFrame:
    """`began`: when the owner got the partition. `own`: when it last asked or committed, earlier.
    `stored`: the last commit earlier than this event; without an offset if that was deleted.
    `before`: the offset in force then."""
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
    """`start`: what the owner was told since it `began`, unless it had committed something without
    asking. `started_at`: from there it went on, or else from what had been committed by then."""
    is_start = is_any(OffsetsFetched) & F.col("is_owner") & ~_surely(F.col("own") > F.col("began"))
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
        .withColumn("has_start", F.col("is_owner") & _surely(F.col("start.at") > F.col("began")))
        .withColumn("started_at", started_at)
    )


def _finding() -> Column:
    lowest = F.col("lowest")
    is_named = F.col("member_id") != NO_MEMBER
    has_no_owner = F.col("owner_id").isNull()
    is_nobodys = has_no_owner & F.col("holder").isNotNull()
    is_other = _surely(F.col("acting_id") != F.col("owner_id")) | (is_named & is_nobodys)
    is_outside = ~is_named & ~F.col("is_transactional") & has_no_owner
    turns_back = ~F.col("is_transactional") & (lowest < F.col("first"))
    is_lower = turns_back | _surely(lowest < F.col("before"))
    is_behind = _surely(lowest < F.col("started_at"))
    goes_back = turns_back | _surely(lowest < F.col("stored.offset"))
    started_lower = F.col("has_start") & _surely(
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


def _surely(condition: Column) -> Column:
    """Not if it is not known."""
    return F.coalesce(condition, F.lit(False))


def _so_far(value: Column) -> Column:
    """The last one that there was, this event included."""
    return F.last(value, ignorenulls=True).over(_window().rowsBetween(_FIRST, _THIS))


def _earlier(value: Column) -> Column:
    """The last one that there was before this event."""
    return F.last(value, ignorenulls=True).over(_window().rowsBetween(_FIRST, _THIS - 1))


def _window() -> WindowSpec:
    return Window.partitionBy(*LIFE).orderBy("at")
