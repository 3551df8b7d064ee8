"""The members that can switch next: those present at the end, by client library and version, and
what prevents an online conversion of their group."""

from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.events.group_events import (
    ConversionRefused,
    GroupConverted,
    GroupCreated,
    GroupForwarded,
)
from gateway.events.member_events import (
    ClientSeen,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberSwitched,
)
from gateway.events.offset_events import NO_MEMBER
from gateway.pipeline.group_histories import GROUP, GroupHistories
from gateway.pipeline.parsing import is_any
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.changes import CONSUMER
from gateway.pipeline.tables.client_versions import speaks_consumer
from gateway.pipeline.tables.row import Row

CONSUMER_TYPE = "consumer"


class ReadinessRow(Row):
    """The members of one group that run the same client."""

    software_name: str | None
    """As the members introduced themselves; null if they did not."""
    software_version: str | None
    protocol: Literal["classic", "consumer"]
    """The members' protocol at the end."""
    members: int
    static_members: int
    """Members with a group.instance.id."""
    speaks_consumer: bool | None
    """Whether this version supports the new protocol; null if unknown. See `client_versions`."""
    can_convert: bool
    """Whether the group converts when a member with the new protocol joins, or has converted
    already."""
    blocked_by: str | None
    """What prevents it."""
    at_ms: int
    """The latest event about any of them."""


def readiness(histories: GroupHistories) -> DataFrame:
    """See `ReadinessRow`."""
    members = _members(histories)
    blocks = _blocks(histories, members)
    known = members.join(blocks, list(GROUP), "left")
    return (
        known.groupBy(*GROUP, "software_name", "software_version", "protocol", "blocked_by")
        .agg(
            F.count("*").alias("members"),
            F.count("instance_id").alias("static_members"),
            F.max("seen_ms").alias("at_ms"),
        )
        .withColumns(
            {
                "can_convert": F.col("blocked_by").isNull(),
                "speaks_consumer": speaks_consumer(
                    F.col("software_name"), F.col("software_version")
                ),
            }
        )
        .select(*struct_of(ReadinessRow).names)
    )


def _members(histories: GroupHistories) -> DataFrame:
    """The latest knowledge of each member that is still there. A member whose join was not told (it
    was before the first event, or in the cluster) was at least seen; but so was a client that was
    refused."""
    told = histories.of(
        ClientSeen,
        ConversionRefused,
        MemberJoined,
        MemberSwitched,
        MemberLeft,
        MemberFenced,
        MemberReplaced,
    ).where(F.col("member_id") != NO_MEMBER)
    in_order = Window.partitionBy(*GROUP, "member_id").orderBy("position")
    ended = is_any(MemberLeft, MemberFenced, MemberReplaced)
    is_seen = is_any(ClientSeen)
    # A member that leaves and returns under its id starts over.
    lives = F.sum(ended.cast("int")).over(in_order)
    of_life = told.withColumn("life", lives - ended.cast("int")).withColumn("ended", ended)
    names = ("software_name", "software_version", "protocol_type", "embedded_version")
    return (
        of_life.groupBy(*GROUP, "member_id", "life")
        .agg(
            F.max("ended").alias("ended"),
            F.max(is_any(ConversionRefused)).alias("was_refused"),
            F.max(is_any(MemberJoined, MemberSwitched)).alias("has_come"),
            F.max_by("protocol", F.when(F.col("protocol").isNotNull(), F.col("position"))).alias(
                "protocol"
            ),
            F.max("instance_id").alias("instance_id"),
            F.max_by(F.struct(*names), F.when(is_seen, F.col("position"))).alias("client"),
            F.max("at_ms").alias("seen_ms"),
        )
        .where(~F.col("ended") & F.col("protocol").isNotNull())
        .where(F.col("has_come") | ~F.col("was_refused"))
        .select(*GROUP, "member_id", "protocol", "instance_id", "seen_ms", "client.*")
    )


def _blocks(histories: GroupHistories, members: DataFrame) -> DataFrame:
    """What prevents each group's conversion, if anything: `blocked_by`."""
    told = histories.of(GroupCreated, GroupConverted, ConversionRefused, GroupForwarded)
    # A refusal to convert back does not concern classic members.
    is_way_back = is_any(ConversionRefused) & (F.col("direction") == "consumer->classic")
    converted_to = F.when(is_any(GroupConverted), F.split("direction", "->")[1])
    last = (
        told.where(~is_way_back)
        .groupBy(*GROUP)
        .agg(
            F.max_by("event", "position").alias("last"),
            F.max_by("reason", "position").alias("reason"),
            F.max_by(F.coalesce(converted_to, "kind"), "position").alias("kind"),
        )
    )
    is_classic = F.col("protocol") == "classic"
    is_foreign = is_classic & (F.col("protocol_type") != CONSUMER_TYPE)
    is_unread = is_classic & (F.col("protocol_type") == CONSUMER_TYPE)
    of_members = members.groupBy(*GROUP).agg(
        F.min(F.when(is_foreign, F.col("protocol_type"))).alias("foreign"),
        F.max(is_unread & F.col("embedded_version").isNull()).alias("has_unread"),
    )
    return of_members.join(last, list(GROUP), "left").select(*GROUP, _reason().alias("blocked_by"))


def _reason() -> Column:
    return (
        F.when(
            F.col("last") == GroupForwarded.name,
            F.concat(F.lit("the cluster has the group: "), "reason"),
        )
        .when(F.col("kind") == CONSUMER, F.lit(None))
        .when(
            F.col("foreign").isNotNull(),
            F.concat(F.lit("its members are not consumers: protocol type "), "foreign"),
        )
        .when(F.col("has_unread"), "a member's subscription cannot be read")
        .when(
            F.col("last") == ConversionRefused.name,
            F.concat(F.lit("a conversion was refused: "), "reason"),
        )
    )
