"""The state of each member after each event of the member or its group.

A member of a classic group has the state of the group. A classic member of a consumer group goes
through a rebalance of its own. A native member has partitions to give up, or none.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.events.group_events import GroupConverted
from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberStateMoved,
    MemberSwitched,
)
from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.changes import CLASSIC, NATIVE
from gateway.pipeline.tables.revocations import revocations
from gateway.pipeline.tables.sightings import RESTARTED, SEEN
from gateway.pipeline.tables.windows import from_here, newest, oldest, so_far, whole

MEMBER = (*GROUP, "member_id")
_STABLE = "Stable"
_AGAIN = ""
"""Stands for the state that the next event says it was. A process that loads the group makes
classic members rejoin if they are behind, and tells of it only when they do."""


def member_states(changes: DataFrame) -> DataFrame:
    """The `kind`, `protocol`, `state` and `is_present` of each member, at each place in `changes`
    that may change them, with the `event` and `cause` of the change. At the first event,
    `is_from_before` marks the members that were there before it."""
    own = _of_members(changes)
    points = own.unionByName(_of_groups(changes), allowMissingColumns=True).unionByName(
        revocations(changes), allowMissingColumns=True
    )
    told = points.select(
        *MEMBER,
        "place",
        "at_ms",
        "event",
        "cause",
        F.max("instance_id").over(whole("member_id")).alias("instance_id"),
        F.coalesce(F.max("is_from_before").over(whole("member_id", "at_ms")), F.lit(False)).alias(
            "is_from_before"
        ),
        *(_last(name) for name in ("is_present", "kind", "protocol", "group_state")),
        _last("own_state"),
        oldest(F.col("was_state"), "member_id").alias("first_state"),
        newest("was_state", from_here("member_id")).alias("next_state"),
        F.sum("revocations").over(so_far("member_id")).alias("revocations"),
    )
    return told.select(
        *MEMBER,
        "instance_id",
        "is_present",
        "kind",
        "protocol",
        _state().alias("state"),
        "place",
        "at_ms",
        "is_from_before",
        "event",
        "cause",
    )


def nothing() -> Column:
    """A null text."""
    return F.lit(None).cast("string")


def _last(name: str) -> Column:
    return newest(name, so_far("member_id")).alias(name)


def _state() -> Column:
    native = F.when(F.col("revocations") > 0, "UnrevokedPartitions").otherwise(_STABLE)
    again = F.coalesce("next_state", F.lit(_STABLE))
    return (
        F.when(F.col("kind") == CLASSIC, F.col("group_state"))
        .when(F.col("protocol") == NATIVE, native)
        .when(F.col("own_state") == _AGAIN, again)
        .otherwise(F.coalesce("own_state", "first_state"))
    )


def _of_members(changes: DataFrame) -> DataFrame:
    """The events of members, and a first row for members that were there before the first event."""
    rows = changes.select(
        "*",
        F.first("kind").over(so_far()).alias("first_kind"),
        F.first("state").over(so_far()).alias("first_state"),
        F.row_number().over(so_far("member_id")).alias("number"),
    ).where(F.col("member_id").isNotNull())
    beginning = {
        "place": F.lit(-1).cast("long"),
        "at_ms": F.col("begun_ms"),
        "is_from_before": F.lit(True),
        "event": F.lit(SEEN),
        "cause": nothing(),
        "is_present": F.lit(True),
        "kind": F.col("first_kind"),
        "protocol": F.col("protocol_before"),
        "group_state": F.col("first_state"),
        "own_state": nothing(),
        "was_state": nothing(),
    }
    own_state = F.when(is_any(MemberStateMoved), F.col("to_state"))
    itself = {
        **{name: F.col(name) for name in beginning if name in changes.columns},
        "is_from_before": F.lit(False),
        "cause": F.when(is_any(MemberLeft, MemberFenced), F.col("cause")),
        "group_state": F.col("state"),
        "own_state": F.when(is_any(MemberJoined, MemberSwitched), _STABLE).otherwise(own_state),
        "was_state": F.when(is_any(MemberStateMoved), F.col("from_state")),
    }
    was_there = F.col("was_there") & (F.col("number") == 1)
    points = F.array(F.when(was_there, _struct(beginning)), _struct(itself))
    return rows.select(*MEMBER, "instance_id", F.inline(F.array_compact(points)))


def _struct(columns: dict[str, Column]) -> Column:
    names = sorted(columns)
    return F.struct(*(columns[name].alias(name) for name in names))


def _of_groups(changes: DataFrame) -> DataFrame:
    """What each member inherits from its group: the kind, a classic group's state, a restart.

    These points are numbered, and each member is joined with the numbers of its time in the group:
    a group whose members come and go may have thousands of both.
    """
    taken = F.struct("kind", F.when(F.col("kind") == CLASSIC, F.col("state")))
    rows = changes.select("*", taken.alias("taken"), F.lag(taken).over(so_far()).alias("before"))
    is_restart = (F.col("event") == RESTARTED) & F.col("member_id").isNull()
    is_point = is_restart | ~F.col("taken").eqNullSafe(F.col("before"))
    one = F.when(is_point, 1).otherwise(0)
    numbered = rows.select(
        "*",
        is_point.alias("is_point"),
        is_restart.alias("is_restart"),
        F.sum(one).over(so_far()).alias("number"),
        F.sum(one).over(whole()).alias("last_number"),
    )
    points = numbered.where("is_point").select(
        *GROUP,
        "number",
        "place",
        "at_ms",
        "event",
        "kind",
        F.col("state").alias("group_state"),
        F.when(F.col("is_restart"), _AGAIN)
        .when(is_any(GroupConverted), _STABLE)
        .alias("own_state"),
    )
    return _during_membership(numbered).join(points, [*GROUP, "number"]).drop("number")


def _during_membership(numbered: DataFrame) -> DataFrame:
    """For each member the numbers of the group's points between its arrival and its departure."""
    before = F.col("number") - F.col("is_point").cast("int")
    came = F.when(F.col("was_there"), 1).when(F.col("is_present"), F.col("number") + 1)
    is_still_there = F.max_by("is_present", "place")
    spans = (
        numbered.where(F.col("member_id").isNotNull())
        .groupBy(*MEMBER)
        .agg(
            F.min(came).alias("first"),
            F.when(~is_still_there, F.max(before)).otherwise(F.max("last_number")).alias("last"),
        )
        .where("first <= last")
    )
    return spans.select(*MEMBER, F.explode(F.sequence("first", "last")).alias("number"))
