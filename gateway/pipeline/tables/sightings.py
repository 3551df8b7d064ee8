"""The rows that tables of groups and members are made of: events, restarts, and who was seen.

Owns what a gateway forgets when it ends, and who is known only by being there. Must not know what
the events mean to a table.

What a classic group did since its last record is forgotten with the process that did it: the log
has its members and its state as they are when a rebalance completes. That a process has ended shows
in the events of the next one. When is not told: it counts as ended with its last event.
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
"""Many, and they change nothing: of each member they say only that it is there."""

DEPARTURES = (MemberLeft, MemberFenced, MemberReplaced)

RESTARTED = "gateway_restarted"
"""In place of an event's name: another process went on with the group, or undid this."""
PLACES = 3
"""How far the places of two events are apart."""
SEEN = "member_seen"
"""In place of an event's name: the member was there."""

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
    "group_epoch",
    "generation",
    "from_state",
    "to_state",
    "partitions",
    "topics",
)


def sightings(histories: GroupHistories) -> DataFrame:
    """The events of CHANGES in the order of `place`, and between them what else is known.

    Their own columns, and `is_back`: whether a restart brought the member back, or took it away;
    null in all rows but those.
    """
    changes = _with_restarts(_changes(histories))
    return changes.unionByName(_seen(histories), allowMissingColumns=True)


def _changes(histories: GroupHistories) -> DataFrame:
    place = F.col("position") * PLACES
    return histories.of(*CHANGES).select(*_COLUMNS, "process_id", place.alias("place"))


def _seen(histories: GroupHistories) -> DataFrame:
    """Before all else: who is told of later, without having joined, was there from the start."""
    seen = histories.of(*SIGHTS).where(F.col("member_id") != NO_MEMBER)
    return seen.groupBy(*GROUP, "member_id").agg(
        F.min("at_ms").alias("at_ms"),
        F.lit(SEEN).alias("event"),
        F.lit(0).cast("long").alias("place"),
    )


def _with_restarts(changes: DataFrame) -> DataFrame:
    is_kept = F.col("process_id").isNull()
    next_process = _next("process_id")
    resumed = _next(F.when(~is_kept, F.col("place")))
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
        # What is kept between the two processes may be of either: only a group that somebody has
        # joined again completes a rebalance, and that would have been told before.
        & (F.col("completed").isNull() | (F.col("ended.resumed") < F.col("completed")))
    )
    changes = changes.withColumn("is_forgotten", F.coalesce(is_forgotten, F.lit(False)))
    # Of what a member did before the same end only the first counts: what was so before that.
    together = so_far("member_id", "ended", "is_forgotten")
    is_undone = F.col("is_forgotten") & (F.row_number().over(together) == 1)
    return _with_rows_between(changes.withColumn("is_undone", is_undone))


def _next(value: Column | str) -> Column:
    """The next such value after this row."""
    return newest(value, but_this(from_here()))


def _with_rows_between(changes: DataFrame) -> DataFrame:
    """Behind a process's last row those that undo what it did, and one for its end."""
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
