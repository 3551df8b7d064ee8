"""The rows behind the tables of groups and members: events, restarts, and sightings of members.

A process that ends forgets what a classic group did since its last record: the log has the members
and the state at the end of a rebalance. The end of a process shows only in the events of the next
one. Its time is unknown, so the process counts as ended with its last event.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupEpochBumped,
    GroupStateMoved,
    TargetComputed,
    TopicsGone,
)
from gateway.events.member_events import (
    ClientSeen,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateMoved,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRevoked,
    PartitionsStated,
)
from gateway.events.offset_events import NO_MEMBER, OffsetsCommitted
from gateway.pipeline.group_histories import GROUP, GroupHistories
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.windows import but_this, from_here, newest, so_far

CHANGES = (
    GroupCreated,
    GroupConverted,
    GroupEpochBumped,
    TargetComputed,
    GroupStateMoved,
    TopicsGone,
    ClientSeen,
    MemberJoined,
    MemberLeft,
    MemberFenced,
    MemberReplaced,
    MemberSwitched,
    MemberStateMoved,
    PartitionsRevoked,
    PartitionsReleased,
    PartitionsAssigned,
)
SIGHTS = (PartitionsStated, OffsetsCommitted)
"""Frequent events that change nothing; they show only that a member is there."""

DEPARTURES = (MemberLeft, MemberFenced, MemberReplaced)

RESTARTED = "gateway_restarted"
"""A pseudo event: another process continued with the group, or undid this change."""
PLACES = 3
"""The distance between the places of two events."""
SEEN = "member_seen"
"""A pseudo event: the member was there."""

_COLUMNS = (
    *GROUP,
    "event",
    "at_ms",
    "member_id",
    "instance_id",
    "replaced_by",
    "protocol",
    "cause",
    "kind",
    "direction",
    "is_live",
    "group_epoch",
    "generation",
    "from_state",
    "to_state",
    "partitions",
    "topics",
)


def sightings(histories: GroupHistories) -> DataFrame:
    """The events of CHANGES in the order of `place`, with pseudo events between them.

    The columns are those of the events and `is_back`: whether a restart brought the member back
    (true) or removed it (false); null in all other rows.
    """
    changes = _with_restarts(_changes(histories))
    return changes.unionByName(_seen(histories), allowMissingColumns=True)


def _changes(histories: GroupHistories) -> DataFrame:
    place = F.col("position") * PLACES
    return histories.of(*CHANGES).select(*_COLUMNS, "process_id", place.alias("place"))


def _seen(histories: GroupHistories) -> DataFrame:
    """Rows at the very beginning for members that appear later without having joined."""
    seen = histories.of(*SIGHTS).where(F.col("member_id") != NO_MEMBER)
    return seen.groupBy(*GROUP, "member_id").agg(
        F.min("at_ms").alias("at_ms"),
        F.lit(SEEN).alias("event"),
        F.lit(0).cast("long").alias("place"),
    )


def _with_restarts(changes: DataFrame) -> DataFrame:
    next_process = _next("process_id")
    resumed = _next(F.when(F.col("process_id").isNotNull(), F.col("place")))
    changes = changes.withColumn("is_kept", _is_kept())
    is_kept = F.col("is_kept")
    changes = changes.select(
        "*",
        (F.col("process_id") != next_process).alias("is_end"),
        F.struct("place", "at_ms", resumed.alias("resumed")).alias("here"),
        _next(F.when(is_kept, F.col("place"))).alias("kept"),
        _next(F.when(is_kept & is_any(GroupStateMoved), F.col("place"))).alias("completed"),
    )
    ended = newest(F.when(F.col("is_end"), F.col("here")), from_here())
    changes = changes.withColumn("ended", ended)
    is_forgotten = (
        is_any(MemberJoined, *DEPARTURES)
        & ~is_kept
        & F.col("ended").isNotNull()
        & (F.col("kept").isNull() | (F.col("ended.place") < F.col("kept")))
        # Records between the two processes may be of either. But only a group that a member has
        # rejoined completes a rebalance, and its join would have been told earlier.
        & (F.col("completed").isNull() | (F.col("ended.resumed") < F.col("completed")))
    )
    changes = changes.withColumn("is_forgotten", F.coalesce(is_forgotten, F.lit(False)))
    # Of a member's forgotten changes only the first matters: what was true before it.
    together = so_far("member_id", "ended", "is_forgotten")
    is_undone = F.col("is_forgotten") & (F.row_number().over(together) == 1)
    return _with_rows_between(changes.withColumn("is_undone", is_undone))


def _is_kept() -> Column:
    """Whether the event was written with its records. An empty consumer group that turns classic is
    deleted by a record, but its first member has none before the end of a rebalance."""
    is_emptied = F.col("direction").endswith("->classic") & ~F.col("is_live")
    has_turned = F.max(is_any(GroupConverted) & is_emptied).over(so_far("at_ms"))
    is_unwritten = is_any(MemberJoined, GroupStateMoved) & F.coalesce(has_turned, F.lit(False))
    return F.col("process_id").isNull() & ~is_unwritten


def _next(value: Column | str) -> Column:
    """The next such value after this row."""
    return newest(value, but_this(from_here()))


def _with_rows_between(changes: DataFrame) -> DataFrame:
    """Adds rows after a process's last row: one for each change that is undone, and one for its
    end."""
    itself, undoing, end = F.lit(0), F.lit(1), F.lit(2)
    rows = F.array_compact(
        F.array(itself, F.when(F.col("is_undone"), undoing), F.when(F.col("is_end"), end))
    )
    told = changes.withColumn("row", F.explode(rows))
    is_itself, is_undoing = F.col("row") == itself, F.col("row") == undoing
    at = F.when(is_itself, F.col("here")).otherwise(F.col("ended"))
    changed = {
        "event": F.when(is_itself, F.col("event")).otherwise(RESTARTED),
        "at_ms": at["at_ms"],
        "place": at["place"] + F.col("row"),
        "is_back": F.when(is_undoing, F.col("event") != MemberJoined.name),
        "member_id": F.when(F.col("row") != end, F.col("member_id")),
        "protocol": F.when(is_undoing, "classic").otherwise(F.when(is_itself, F.col("protocol"))),
    }
    kept = [
        F.when(is_itself, F.col(name)).alias(name)
        for name in _COLUMNS
        if name not in (*GROUP, *changed)
    ]
    return told.select(*GROUP, *(column.alias(name) for name, column in changed.items()), *kept)
