"""The story of each group: its events, each once, in the order in which they happened.

Owns order and repeats (two gateways with one state log, a restart, files read twice). Must not know
what any event means.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.pipeline.parsing import PROBLEM

GROUP = ("cluster_id", "group_id")
"""What names a group: gateways of other clusters may have groups of the same name."""

_SEQUENCE = ("is_beside", "at_ms", "process_id", "sequence")


class Stories:
    """Of stored events. `everything` has at least the gateways' own events, which say whose
    clusters they are; `events` those of the groups asked about."""

    def __init__(self, events: DataFrame, everything: DataFrame | None = None) -> None:
        self._events = events
        self._clusters = clusters(events if everything is None else everything)

    def of(self, *kinds: type[GatewayEvent]) -> DataFrame:
        """The events of these kinds, with the fields that any of them has.

        `at_ms` never goes back within a group, whatever clocks did; `position` counts from 1 within
        a group, in the order of time. All rows of a group are in one partition.
        """
        fields = _fields(kinds)
        found = (
            self._events.where(F.col("event").isin([kind.name for kind in kinds]))
            .where(F.col(PROBLEM).isNull() & F.col("group_id").isNotNull())
            .select(
                "gateway_id",
                "group_id",
                "process_id",
                "event",
                "sequence",
                # An event beside the group's sequence comes after the one that it names.
                F.coalesce("after", "sequence").alias("place"),
                F.col("process_id").isNotNull().alias("is_beside"),
                "at_ms",
                *fields,
            )
            .join(F.broadcast(self._clusters), "gateway_id", "left")
            .withColumn("cluster_id", F.coalesce("cluster_id", F.lit("")))
            .repartition(*GROUP)
        )
        told = Window.partitionBy(*GROUP, "gateway_id").orderBy("place", *_SEQUENCE)
        before = F.lag(F.struct("process_id", "sequence")).over(told)
        so_far = told.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        once = (
            found.withColumn("is_repeat", before.eqNullSafe(F.struct("process_id", "sequence")))
            .withColumn("told_ms", F.max("at_ms").over(so_far))
            .where(~F.col("is_repeat"))
        )
        happened = Window.partitionBy(*GROUP).orderBy("told_ms", "gateway_id", "place", *_SEQUENCE)
        return once.withColumn("position", F.row_number().over(happened)).select(
            *GROUP,
            "gateway_id",
            "process_id",
            "sequence",
            "event",
            F.col("told_ms").alias("at_ms"),
            F.col("position").cast("long"),
            *fields,
        )


def _fields(kinds: Sequence[type[GatewayEvent]]) -> list[str]:
    return sorted({name for kind in kinds for name in kind.model_fields})


def clusters(events: DataFrame) -> DataFrame:
    """Which cluster each gateway is in front of, as it said last."""
    started = events.where((F.col("event") == GatewayStarted.name) & F.col(PROBLEM).isNull())
    last = F.max_by("cluster_id", F.struct("at_ms", "sequence"))
    return started.groupBy("gateway_id").agg(last.alias("cluster_id"))
