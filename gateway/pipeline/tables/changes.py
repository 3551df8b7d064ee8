"""What happened in each group, one row for each event, with who was in it and how it was then.

The tables of members, rebalances and migrations are made of these rows. A story may have lost its
beginning: whoever is told of without having joined was there before the first event.
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
    """An event, or what is known without one: `gateway_restarted` behind the last event of a
    process, and for what it forgot; `member_seen` for members that were there from the start."""

    place: int
    """Its place in the story of the group; not without gaps."""
    at_ms: int
    event: str
    begun_ms: int
    """Of the first event of the group that is there."""
    kind: Kind | None
    """Of the group, from here on; null if no event says it."""
    state: str | None
    """Of the group, from here on; null if no event says it. Of a classic group Empty,
    PreparingRebalance, CompletingRebalance, Stable. Of a consumer group Empty, Assigning (there is
    no target yet for its epoch), Reconciling (until the last change in that epoch), Stable."""
    members: int
    """In the group, from here on."""
    classic_members: int
    """Those of them that speak the classic protocol."""
    member_id: str | None
    """Whom the event is about."""
    instance_id: str | None
    """Of a static member, as far as any event says it."""
    protocol: Protocol | None
    """What the member speaks from here on; null if no event says it."""
    protocol_before: Protocol | None
    """What it spoke until then."""
    is_present: bool | None
    """Whether the member is in the group from here on."""
    was_present: bool | None
    """Whether it was until then."""
    was_there: bool | None
    """Whether it was before the first event."""
    cause: str | None
    """As the event says."""
    direction: str | None
    """As the event says."""
    from_state: str | None
    """As the event says."""
    to_state: str | None
    """As the event says."""
    epoch: int | None
    """The group epoch or the generation, if the event says it."""
    partitions: Mapping[str, tuple[int, ...]] | None
    """As the event says."""
    topics: tuple[str, ...] | None
    """As the event says."""


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
    # Sights are before all else, whenever it was that the member was seen.
    at_ms = F.when(F.col("event") == SEEN, F.col("begun_ms")).otherwise(F.col("at_ms"))
    return rows.withColumn("at_ms", at_ms)


def _with_presence(rows: DataFrame) -> DataFrame:
    """Who is there: since it joined, until it went; from the start if it did not join."""
    is_about_member = F.col("member_id").isNotNull()
    turn = (
        F.when(is_any(MemberJoined), F.lit(True))
        .when(is_any(*DEPARTURES), F.lit(False))
        .otherwise(F.col("is_back"))
    )
    # A client that was seen may be on its way in, or turned away.
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
    """Of a static member. One that joined too early to be told of is known when it is replaced:
    the next row tells of who goes on in its place."""
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
    """Those who were there from the start count once, in the first row of each."""
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
    """Neither a conversion nor another process goes on with a rebalance, but may begin one."""
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
    """As Kafka names them; that it is stable shows only by what is told next."""
    return (
        F.when(F.col("members") == 0, "Empty")
        .when(F.col("bumps") == 0, F.lit(None))
        .when(~F.col("has_target"), "Assigning")
        .when(F.col("place") < F.col("last_change"), "Reconciling")
        .otherwise("Stable")
    )
