"""The history of each partition's owners and offsets: one row per event and partition.

`at` is the row's place in time. `life` counts how often the partition has started over: because its
topic was recreated, or its group was deleted or forwarded.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.events.group_events import GroupDeleted, GroupForwarded, TopicsGone
from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from gateway.events.offset_events import OffsetsCommitted, OffsetsDeleted, OffsetsFetched
from gateway.pipeline.group_histories import GROUP, GroupHistories
from gateway.pipeline.parsing import is_any

GONE_TOLD_MS_MAX = 30_000
"""How long after a topic was recreated and consumed a gateway may report that it is gone."""

LIFE = (*GROUP, "topic", "partition", "life")
"""A partition between two starts."""

_ENDS = (TopicsGone, GroupDeleted, GroupForwarded)
_EVENT_COLUMNS = (
    *(*GROUP, "gateway_id", "process_id", "sequence", "event"),
    *("member_id", "is_transactional", "from_ms", "to_ms"),
)
_NUMBERS = ("offset", "commits", "first", "lowest", "last")


def offset_history(histories: GroupHistories) -> DataFrame:
    """A commit is placed where the last commit of its event was stored. The event is told some
    seconds later, possibly by a gateway that has given up the group meanwhile. A fetched `offset`
    is null if there was none."""
    told = histories.of(
        *(PartitionsAssigned, PartitionsReleased),
        *(OffsetsFetched, OffsetsCommitted, OffsetsDeleted),
        *_ENDS,
    )
    end = F.struct(F.struct("at_ms", "position").alias("at"), "topics")
    ends = F.collect_list(F.when(is_any(*_ENDS), end)).over(Window.partitionBy(*GROUP))
    at = F.struct(F.least("at_ms", "to_ms").alias("at_ms"), "position").alias("at")
    return (
        told.withColumn("ends", ends)
        .select(*_EVENT_COLUMNS, at, "ends", F.inline(_entries()))
        .withColumn("life", F.size(F.filter("ends", _ended_before)))
        .withColumn("is_gone_soon", F.exists("ends", _is_late_notice))
        .withColumn("offset", F.when(F.col("offset") >= 0, F.col("offset")))
        .drop("ends")
    )


def _entries() -> Column:
    """The partitions of an event with its values for each; null if it has none."""
    return F.coalesce(
        _each("partitions", lambda entry: entry),
        _each("starts", lambda entry: entry["partition"], "offset"),
        _each("offsets", lambda entry: entry["partition"], "commits", "first", "lowest", "last"),
    )


def _each(by_topic: str, partition_of: Callable[[Column], Column], *said: str) -> Column:
    def number(entry: Column, name: str) -> Column:
        return (entry[name] if name in said else F.lit(None)).cast("long").alias(name)

    def row(topic: Column, entry: Column) -> Column:
        partition = partition_of(entry).cast("long").alias("partition")
        return F.struct(topic.alias("topic"), partition, *(number(entry, n) for n in _NUMBERS))

    def rows(topic: Column) -> Column:
        return F.transform(topic["value"], lambda entry: row(topic["key"], entry))

    return F.flatten(F.transform(F.map_entries(by_topic), rows))


def _ended_before(end: Column) -> Column:
    return (end["at"] < F.col("at")) & (end["topics"].isNull() | _covers_topic(end))


def _is_late_notice(end: Column) -> Column:
    """Whether `end` reports that the topic is gone, and the topic may have been gone at this
    event."""
    late_ms = end["at"]["at_ms"] - F.col("at.at_ms")
    return (end["at"] > F.col("at")) & (late_ms <= GONE_TOLD_MS_MAX) & _covers_topic(end)


def _covers_topic(end: Column) -> Column:
    return F.coalesce(F.array_contains(end["topics"], F.col("topic")), F.lit(False))
