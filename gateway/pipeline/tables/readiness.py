"""Who can go next: the members that there are at the end, by client library and version, and what
keeps their group from being converted while it runs.
"""

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
    """As they introduced themselves; null if they did not."""
    software_version: str | None
    protocol: Literal["classic", "consumer"]
    """That they speak at the end."""
    members: int
    static_members: int
    """Those of them with a group.instance.id."""
    speaks_consumer: bool | None
    """Whether this version knows the new protocol; null if nobody knows. See `client_versions`."""
    can_convert: bool
    """Whether nothing keeps the group from being converted when a member comes with the new
    protocol, or it has one already."""
    blocked_by: str | None
    """What does keep it."""
    at_ms: int
    """The last event about any of them."""


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
    """The last that is known of each member that is still there. Who joined where nobody told of it
    (before the files start; in the cluster) was seen at least, but so was who was turned away."""
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
    # A member that leaves and comes back under its id begins anew.
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
    """What keeps each group from being converted, if anything does: `blocked_by`."""
    told = histories.of(GroupCreated, GroupConverted, ConversionRefused, GroupForwarded)
    # On the way back a client is refused what the others have.
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
            F.concat(F.lit("its members are no consumers: protocol type "), "foreign"),
        )
        .when(F.col("has_unread"), "a member's subscription cannot be read")
        .when(
            F.col("last") == ConversionRefused.name,
            F.concat(F.lit("a conversion was refused: "), "reason"),
        )
    )
