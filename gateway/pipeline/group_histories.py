"""The history of each group: each event once, in the order in which the events happened.

Removes repeats, which come from two gateways with one state log, from restarts, and from files that
are read twice.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.events import gateway_events
from gateway.events.catalog import EVENTS
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.pipeline.parsing import CONTENT, NUMBERED, PROBLEM, is_any

GROUP = ("cluster_id", "group_id")
"""The key of a group: gateways of different clusters may have groups of the same name."""

_PLACED = (*GROUP, "gateway_id", "process_id", "sequence", "event", "at_ms", "position", "hole")
_MOMENTS = ("from_ms", "to_ms")
"""Further fields with times."""
_SEQUENCE = ("is_beside", "at_ms", "process_id", "sequence", CONTENT)
"""The order of events with the same place. If lines contradict each other, the first one counts,
and the choice is the same in every run."""


def _fields(kinds: Collection[type[GatewayEvent]]) -> list[str]:
    return sorted({name for kind in kinds for name in kind.model_fields})


_ALL_FIELDS = _fields(
    [kind for kind in EVENTS.values() if kind.__module__ != gateway_events.__name__]
)


class GroupHistories:
    """The histories in `events`. `everything` has at least the gateways' own events, which name
    their clusters; by default they are in `events` too."""

    def __init__(self, events: DataFrame, everything: DataFrame | None = None) -> None:
        told = with_cluster(_events(events), events if everything is None else everything)
        self._events = _in_order(_without_repeats(told.repartition("group_id")))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Compute the order only once for all uses inside. The data is kept on disk because of its
        size."""
        self._events.persist(StorageLevel.DISK_ONLY)
        try:
            yield
        finally:
            self._events.unpersist()

    def of(self, *kinds: type[GatewayEvent]) -> DataFrame:
        """The events of these kinds, with the union of their fields.

        `at_ms` never decreases within a group, whatever the clocks did, and `from_ms` and `to_ms`
        are not before a moment at which a clock was behind. `position` counts a group's events from
        1. `hole` tells where events of the group's sequence are missing or unreadable: it has
        `position` and `at_ms` of the event before the last such place (0 and null if there is
        none), and is null without a hole. All rows of a group are in one partition.
        """
        return self._events.where(is_any(*kinds)).select(*_PLACED, *_fields(kinds))


def _events(events: DataFrame) -> DataFrame:
    """The events of groups. An event beside the group's sequence is placed after the event that it
    names. Events with an unknown name are no hole: they do not change the meaning of others, and no
    table asks for them."""
    is_told = F.col(PROBLEM).isNull() | (F.col(NUMBERED) & ~is_any(*EVENTS.values()))
    return events.where(is_told & F.col("group_id").isNotNull()).select(
        *("gateway_id", "group_id", "process_id", "event", "sequence", "began_ms", "at_ms"),
        F.coalesce("after", "sequence").alias("place"),
        F.col("process_id").isNotNull().alias("is_beside"),
        CONTENT,
        *_ALL_FIELDS,
    )


def _without_repeats(told: DataFrame) -> DataFrame:
    """The events of each gateway in its order, without repeats. A sequence that begins again
    follows the one before it."""
    in_order = Window.partitionBy(*GROUP, "gateway_id").orderBy("began_ms", "place", *_SEQUENCE)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    number = F.struct("process_id", "began_ms", "sequence")
    is_behind = F.col("told_ms") > F.col("at_ms")
    # An event beside the sequence carries the number of the latest event in the sequence.
    expected = F.when(F.col("is_beside"), F.col("place")).otherwise(F.col("place") - 1)
    goes_on = F.lag("began_ms").over(in_order).eqNullSafe(F.col("began_ms"))
    place_before = F.when(goes_on, F.coalesce(F.lag("place").over(in_order), F.lit(0))).otherwise(0)
    return (
        told.withColumn("is_repeat", F.lag(number).over(in_order).eqNullSafe(number))
        .where(~F.col("is_repeat"))
        .withColumn("is_after_hole", expected > place_before)
        .withColumn("told_ms", F.max("at_ms").over(so_far))
        # All later events come from a clock that had been behind.
        .withColumn("behind_ms", F.max(F.when(is_behind, F.col("told_ms"))).over(so_far))
        .withColumns({name: _not_before("behind_ms", name) for name in _MOMENTS})
    )


def _not_before(least: str, name: str) -> Column:
    return F.when(F.col(name).isNotNull(), F.greatest(name, least))


def _in_order(once: DataFrame) -> DataFrame:
    """The events of all gateways in the order in which they happened."""
    happened = Window.partitionBy(*GROUP).orderBy("told_ms", "gateway_id", "place", *_SEQUENCE)
    so_far = happened.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = F.struct(
        (F.col("position") - 1).alias("position"), F.lag("told_ms").over(happened).alias("at_ms")
    )
    return (
        once.withColumn("position", F.row_number().over(happened).cast("long"))
        .withColumn("before", F.when(F.col("is_after_hole"), before))
        .withColumn("hole", F.last("before", ignorenulls=True).over(so_far))
        .select(
            *(name for name in _PLACED if name != "at_ms"),
            F.col("told_ms").alias("at_ms"),
            *_ALL_FIELDS,
        )
    )


def with_cluster(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Rows with the `cluster_id` of their gateway, empty if no event names it."""
    return rows.join(F.broadcast(clusters(events)), "gateway_id", "left").withColumn(
        "cluster_id", F.coalesce("cluster_id", F.lit(""))
    )


def clusters(events: DataFrame) -> DataFrame:
    """The cluster of each gateway, as its latest start names it."""
    started = events.where(is_any(GatewayStarted) & F.col(PROBLEM).isNull())
    last = F.max_by("cluster_id", F.struct("at_ms", "sequence"))
    return started.groupBy("gateway_id").agg(last.alias("cluster_id"))
