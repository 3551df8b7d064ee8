"""Everything that happened in each group: one row per event, with the state of group and member.

The tables of members, rebalances and migrations are made from these rows. The beginning of a
history may be lost: a member that appears without having joined was there before the first event.
"""

from collections.abc import Mapping
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupEpochBumped,
    GroupStateMoved,
    TargetComputed,
)
from gateway.events.member_events import (
    ClientSeen,
    MemberJoined,
    MemberReplaced,
    MemberStateMoved,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRevoked,
)
from gateway.pipeline.group_histories import GROUP, GroupHistories
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.sightings import DEPARTURES, RESTARTED, SEEN, sightings
from gateway.pipeline.tables.windows import but_this, newest, oldest, so_far, whole

Kind = Literal["classic", "consumer"]
Protocol = Literal["classic", "consumer"]
CLASSIC, CONSUMER = "classic", "consumer"
CLASSIC, NATIVE = "classic", "consumer"


class ChangeRow(Row):
    """An event, or a fact that no event tells: `gateway_restarted` after the last event of a
    process, and for each change that it forgot; `member_seen` for members that were there from the
    start."""

    place: int
    """The row's place in the history of the group; places may have gaps."""
    at_ms: int
    event: str
    begun_ms: int
    """The time of the group's first known event."""
    kind: Kind | None
    """The group's protocol from here on; null if unknown."""
    state: str | None
    """The group's state from here on; null if unknown. A classic group is Empty,
    PreparingRebalance, CompletingRebalance or Stable. A consumer group is Empty, Assigning (its
    epoch has no target yet), Reconciling (until the last change in its epoch) or Stable."""
    members: int
    """Members of the group from here on."""
    classic_members: int
    """Members that speak the classic protocol."""
    member_id: str | None
    """The member that the event is about."""
    instance_id: str | None
    """The instance id of a static member, if any event mentions it."""
    protocol: Protocol | None
    """The member's protocol from here on; null if unknown."""
    protocol_before: Protocol | None
    """The member's protocol until then."""
    is_present: bool | None
    """Whether the member is in the group from here on."""
    was_present: bool | None
    """Whether the member was in the group until then."""
    was_there: bool | None
    """Whether the member was in the group before the first event."""
    cause: str | None
    """From the event."""
    direction: str | None
    """From the event."""
    from_state: str | None
    """From the event."""
    to_state: str | None
    """From the event."""
    epoch: int | None
    """The group epoch or the generation, if the event has one."""
    partitions: Mapping[str, tuple[int, ...]] | None
    """From the event."""
    topics: tuple[str, ...] | None
    """From the event."""


def changes(histories: GroupHistories) -> DataFrame:
    """See `ChangeRow`."""
    rows = _with_counts(_with_protocols(_with_presence(_with_kinds(sightings(histories)))))
    return _with_states(rows).select(
        *GROUP,
        "place",
        "at_ms",
        "event",
        "begun_ms",
        F.col("group_kind").alias("kind"),
        F.col("group_state").alias("state"),
        F.col("members").cast("long").alias("members"),
        F.col("classic_members").cast("long").alias("classic_members"),
        "member_id",
        F.col("instance").alias("instance_id"),
        F.col("protocol_now").alias("protocol"),
        "protocol_before",
        *(
            F.when(F.col("member_id").isNotNull(), F.col(name)).alias(name)
            for name in ("is_present", "was_present", "was_there")
        ),
        "cause",
        "direction",
        "from_state",
        "to_state",
        F.coalesce("group_epoch", "generation").alias("epoch"),
        "partitions",
        "topics",
    )


def _with_kinds(rows: DataFrame) -> DataFrame:
    direction = F.split("direction", "->")
    is_native = is_any(MemberJoined) & (F.col("protocol") == NATIVE)
    of_consumer = is_native | is_any(
        GroupEpochBumped, TargetComputed, MemberStateMoved, PartitionsRevoked
    )
    known = F.when(of_consumer, CONSUMER).when(is_any(GroupStateMoved), CLASSIC)
    after = F.when(is_any(GroupConverted), direction[1]).otherwise(F.coalesce("kind", known))
    before = F.when(is_any(GroupConverted), direction[0]).otherwise(known)
    kind = F.coalesce(newest(after, so_far()), oldest(before))
    begun_ms = F.min("at_ms").over(whole())
    rows = rows.select("*", kind.alias("group_kind"), begun_ms.alias("begun_ms"))
    # Sightings come before everything else, whenever the member was seen.
    at_ms = F.when(F.col("event") == SEEN, F.col("begun_ms")).otherwise(F.col("at_ms"))
    return rows.withColumn("at_ms", at_ms)


def _with_presence(rows: DataFrame) -> DataFrame:
    """A member is present from its join until it goes; without a join, from the start."""
    is_about_member = F.col("member_id").isNotNull()
    turn = (
        F.when(is_any(MemberJoined), F.lit(True))
        .when(is_any(*DEPARTURES), F.lit(False))
        .otherwise(F.col("is_back"))
    )
    # A client that was seen may be about to join, or may be turned away.
    rows = rows.select(
        "*",
        F.when(is_about_member, turn).alias("turn"),
        (is_about_member & ~is_any(ClientSeen)).alias("is_sight"),
        F.lead("instance_id").over(so_far()).alias("next_instance_id"),
    )
    was_there = F.coalesce(
        ~oldest(F.col("turn"), "member_id"), F.max("is_sight").over(whole("member_id"))
    )
    before = newest(F.col("turn"), but_this(so_far("member_id")))
    rows = rows.withColumn("was_there", was_there)
    return rows.select(
        "*",
        F.coalesce("turn", before, "was_there").alias("is_present"),
        F.coalesce(before, "was_there").alias("was_present"),
        _instance().alias("instance"),
    )


def _instance() -> Column:
    """The instance id of a static member. If the member joined before the first event, its
    replacement reveals the id: the next row is about the successor."""
    successors = F.when(is_any(MemberReplaced), F.col("next_instance_id"))
    return F.max(F.coalesce(F.col("instance_id"), successors)).over(whole("member_id"))


def _with_protocols(rows: DataFrame) -> DataFrame:
    told = F.when(is_any(MemberJoined, MemberSwitched), F.col("protocol"))
    told = F.when(F.col("event") == RESTARTED, F.col("protocol")).otherwise(told)
    switched_to = F.when(is_any(MemberSwitched), F.col("protocol"))
    was = F.when(switched_to == NATIVE, CLASSIC).when(switched_to == CLASSIC, NATIVE)
    is_classic = (F.col("group_kind") == CLASSIC) | is_any(MemberStateMoved)
    protocol = F.coalesce(
        newest(told, so_far("member_id")),
        oldest(was, "member_id"),
        F.max(F.when(is_any(ClientSeen), F.col("protocol"))).over(whole("member_id")),
        F.max(F.when(is_classic, CLASSIC)).over(whole("member_id")),
    )
    rows = rows.withColumn("protocol_now", F.when(F.col("member_id").isNotNull(), protocol))
    before = F.coalesce(F.lag("protocol_now").over(so_far("member_id")), F.col("protocol_now"))
    return rows.withColumn("protocol_before", before)


def _with_counts(rows: DataFrame) -> DataFrame:
    """Members from before the first event count once, in their first row."""
    is_first = F.row_number().over(so_far("member_id")) == 1
    was_there = F.col("was_there") & is_first
    was_classic = was_there & (F.col("protocol_before") == CLASSIC)
    is_classic = F.col("is_present") & (F.col("protocol_now") == CLASSIC)
    had_been = F.col("was_present") & (F.col("protocol_before") == CLASSIC)
    rows = rows.select(
        "*",
        _number(was_there).alias("of_start"),
        _number(was_classic).alias("classic_of_start"),
        (_number(F.col("is_present")) - _number(F.col("was_present"))).alias("more"),
        (_number(is_classic) - _number(had_been)).alias("more_classic"),
    )
    return rows.select(
        "*",
        (F.sum("of_start").over(whole()) + F.sum("more").over(so_far())).alias("members"),
        (F.sum("classic_of_start").over(whole()) + F.sum("more_classic").over(so_far())).alias(
            "classic_members"
        ),
    )


def _number(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)


def _with_states(rows: DataFrame) -> DataFrame:
    state = F.when(F.col("group_kind") == CLASSIC, _classic_state())
    rows = rows.select(
        "*",
        F.sum(_number(is_any(GroupEpochBumped))).over(so_far()).alias("bumps"),
    )
    is_change = is_any(MemberStateMoved, PartitionsRevoked, PartitionsReleased, PartitionsAssigned)
    rows = rows.select(
        "*",
        F.max(F.when(is_change, F.col("place"))).over(whole("bumps")).alias("last_change"),
        F.max(is_any(TargetComputed)).over(so_far("bumps")).alias("has_target"),
    )
    return rows.withColumn("group_state", state.otherwise(_consumer_state()))


def _classic_state() -> Column:
    """A conversion, or a new process, never continues a rebalance, but may begin one."""
    is_end = (F.col("event") == RESTARTED) & F.col("member_id").isNull()
    kept = F.when(F.col("members") > 0, "Stable").otherwise("Empty")
    told = (
        F.when(is_any(GroupStateMoved), F.col("to_state"))
        .when(is_any(GroupConverted) | is_end, kept)
        .when(is_any(GroupCreated), "Empty")
    )
    before = F.when(is_any(GroupStateMoved), F.col("from_state"))
    return F.coalesce(newest(told, so_far()), oldest(before))


def _consumer_state() -> Column:
    """Kafka's names. That the group is stable shows only in the next events."""
    return (
        F.when(F.col("members") == 0, "Empty")
        .when(F.col("bumps") == 0, F.lit(None))
        .when(~F.col("has_target"), "Assigning")
        .when(F.col("place") < F.col("last_change"), "Reconciling")
        .otherwise("Stable")
    )
