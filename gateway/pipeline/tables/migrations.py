"""Each migration of a group from one protocol to the other, and its cost.

A group has one protocol, is mixed, or is empty. A migration leads from one protocol to the other,
or back to the first one if it was given up. In between the group may be mixed, or empty.

The cost begins before the first member of the new protocol arrives, when the member that it
replaces leaves. It ends after the last member of the old protocol has left, when its partitions
have new owners and its successor has arrived. The cost is therefore counted from rest to rest.
"""

from collections.abc import Mapping
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.events.group_events import GroupConverted
from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.parsing import is_any
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.changes import CLASSIC, NATIVE
from gateway.pipeline.tables.row import Row

STALL_MS = 30_000
"""A rebalance that takes longer is a stall."""

REPLACED_MS_MAX = 60_000
"""A member that arrives later than this after a departure does not count as its replacement."""

_MIXED = "mixed"
_AT_REST = ("Stable", "Empty")


class MigrationRow(Row):
    """One migration."""

    direction: Literal["classic->consumer", "consumer->classic"]
    from_ms: int
    """When the first member of the other protocol arrived, or the last one of the old protocol
    left."""
    to_ms: int | None
    """When all members used one protocol again; null if they do not yet."""
    is_complete: bool
    """Whether that was the other protocol."""
    cost_from_ms: int
    """The start of the cost: when the group was last at rest with as many members as at the arrival
    of the first one, at most a minute earlier."""
    cost_to_ms: int | None
    """The end of the cost: when the group is at rest again, with as many members as before the last
    one of the old protocol left, if they arrive within a minute. Null if that has not happened
    yet."""
    conversions: int
    """How often the group changed its kind."""
    steps: int
    """Arrivals of members with the new protocol."""
    rebalances: int
    """Rebalances that began during the migration."""
    stalls: int
    """Rebalances that took longer than 30 seconds."""
    stalled_ms: int
    """The time beyond those 30 seconds, summed."""
    unowned_partition_s: float
    """Partition-seconds without an owner, from gaps that began during the migration, less the time
    that the group had no members."""
    disturbed_members: int
    """Members disturbed by the rebalances, counted in each of them."""


def migrations(changes: DataFrame, ownership: DataFrame, rebalances: DataFrame) -> DataFrame:
    """See `MigrationRow`."""
    found = _with_costs(_migrations(changes), changes)
    costs = (
        arrivals(changes)
        .unionByName(_conversions(changes), allowMissingColumns=True)
        .unionByName(_rebalances(rebalances), allowMissingColumns=True)
        .unionByName(_gaps(ownership), allowMissingColumns=True)
    )
    return (
        in_migrations(costs, found)
        .groupBy(*found.columns)
        .agg(*(F.coalesce(F.sum(cost), F.lit(0)).alias(name) for name, cost in _costs().items()))
        .select(*struct_of(MigrationRow).names)
    )


def in_migrations(rows: DataFrame, migrations: DataFrame) -> DataFrame:
    """The rows whose `at_ms` is within the cost of a migration, with the migration's columns, and
    one otherwise empty row for each migration."""
    of = F.struct(*(name for name in migrations.columns if name not in GROUP)).alias("of")
    began = migrations.select(*GROUP, F.col("cost_from_ms").alias("at_ms"), of)
    # Migrations follow one another, so a row belongs to the latest one that began, or to none.
    in_order = Window.partitionBy(*GROUP).orderBy("at_ms", F.col("of").isNull())
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        began.unionByName(rows, allowMissingColumns=True)
        .withColumn("of", F.last("of", ignorenulls=True).over(so_far))
        .where((F.col("at_ms") <= F.col("of.cost_to_ms")) | F.col("of.cost_to_ms").isNull())
        .where(F.col("of").isNotNull())
        .select("*", "of.*")
        .drop("of")
    )


def arrivals(changes: DataFrame) -> DataFrame:
    """The arrivals of members with a protocol, new members or known ones: `arrived`."""
    is_arrival = F.col("is_present") & (
        ~F.col("was_present") | (F.col("protocol") != F.col("protocol_before"))
    )
    return changes.where(is_arrival).select(*GROUP, "at_ms", F.col("protocol").alias("arrived"))


def _migrations(changes: DataFrame) -> DataFrame:
    """A migration spans from the end of one protocol to the start of the next."""
    mix = (
        F.when(F.col("members") == 0, F.lit(None))
        .when(F.col("classic_members") == F.col("members"), CLASSIC)
        .when(F.col("classic_members") == 0, NATIVE)
        .otherwise(_MIXED)
    )
    in_order = Window.partitionBy(*GROUP).orderBy("place")
    # Within one moment members are counted one by one; the count at its end is the valid one.
    last_of_moment = Window.partitionBy(*GROUP, "at_ms").orderBy(F.desc("place"))
    moments = (
        changes.select(*GROUP, "place", "at_ms", mix.alias("mix"))
        .withColumn("nth", F.row_number().over(last_of_moment))
        .where(F.col("nth") == 1)
        .withColumn("left_ms", F.lead("at_ms").over(in_order))
        .where(F.col("mix").isNotNull())
        .withColumn("is_new", ~F.col("mix").eqNullSafe(F.lag("mix").over(in_order)))
        .withColumn("spell", F.sum(F.col("is_new").cast("int")).over(in_order))
    )
    spells = moments.groupBy(*GROUP, "spell", "mix").agg(
        F.min("at_ms").alias("at_ms"), F.max_by("left_ms", "place").alias("left_ms")
    )
    nth = Window.partitionBy(*GROUP).orderBy("spell")
    known = spells.select(
        "*",
        F.lag("mix").over(nth).alias("before"),
        F.lag("left_ms").over(nth).alias("before_left_ms"),
        F.lead("mix").over(nth).alias("after"),
        F.lead("at_ms").over(nth).alias("after_ms"),
    )
    is_mixed = F.col("mix") == _MIXED
    # From one protocol to the other without a mixed group: it was empty, or one member was
    # replaced.
    is_leap = ~is_mixed & F.col("before").isin(CLASSIC, NATIVE) & (F.col("before") != F.col("mix"))
    origin = F.coalesce(F.col("before"), _other(F.col("after")), F.lit(CLASSIC))
    return known.where(is_mixed | is_leap).select(
        *GROUP,
        F.when(origin == CLASSIC, "classic->consumer")
        .otherwise("consumer->classic")
        .alias("direction"),
        F.when(is_leap, F.coalesce("before_left_ms", "at_ms"))
        .otherwise(F.col("at_ms"))
        .alias("from_ms"),
        F.when(is_leap, F.col("at_ms")).otherwise(F.col("after_ms")).alias("to_ms"),
        (is_leap | F.coalesce(F.col("after") != origin, F.lit(False))).alias("is_complete"),
    )


def _other(protocol: Column) -> Column:
    return F.when(protocol == CLASSIC, NATIVE).when(protocol == NATIVE, CLASSIC)


def _with_costs(migrations: DataFrame, changes: DataFrame) -> DataFrame:
    """Adds `cost_from_ms` and `cost_to_ms`. A cost ends at the latest where the next one begins."""
    key = (*GROUP, "from_ms")
    in_group = Window.partitionBy(*GROUP).orderBy("from_ms")
    placed = _around(changes, migrations)
    begun_ms = F.greatest(F.coalesce("begun_ms", "from_ms"), F.lag("to_ms").over(in_group))
    return (
        migrations.join(_cost_starts(placed), [*key], "left")
        .join(_cost_ends(placed), [*key], "left")
        .withColumn("cost_from_ms", begun_ms)
        .withColumn("next_ms", F.lead("cost_from_ms").over(in_group))
        .withColumn("cost_to_ms", F.least("settled_ms", "next_ms"))
        .select(*migrations.columns, "cost_from_ms", "cost_to_ms")
    )


def _around(changes: DataFrame, migrations: DataFrame) -> DataFrame:
    """Each change with the migration that began last (`of`) and the one that begins next
    (`coming`)."""
    in_order = Window.partitionBy(*GROUP).orderBy("place")
    told = changes.select(
        *(*GROUP, "place", "at_ms", "members", "state"),
        F.lead("at_ms").over(in_order).alias("next_ms"),
    )
    span = F.struct("from_ms", "to_ms").alias("span")
    began = migrations.select(*GROUP, F.col("from_ms").alias("at_ms"), span)
    forwards = Window.partitionBy(*GROUP).orderBy("at_ms", F.col("span").isNull())
    backwards = Window.partitionBy(*GROUP).orderBy(F.desc("at_ms"), F.col("span").isNull())
    nearest = F.last("span", ignorenulls=True)
    passed = (Window.unboundedPreceding, Window.currentRow)
    return (
        began.unionByName(told, allowMissingColumns=True)
        .withColumn("of", nearest.over(forwards.rowsBetween(*passed)))
        .withColumn("coming", nearest.over(backwards.rowsBetween(*passed)))
        .where(F.col("place").isNotNull())
    )


def _cost_starts(placed: DataFrame) -> DataFrame:
    """`begun_ms`: the departure of the member that the first arrival replaced, or else the end of
    the group's latest rest."""
    of = Window.partitionBy(*GROUP, "coming.from_ms")
    from_ms = F.col("coming.from_ms")
    members_then = F.max_by("members", F.when(F.col("at_ms") == from_ms, F.col("place"))).over(of)
    ends_rest = (
        (F.col("state") == "Stable")
        & (F.col("next_ms") <= from_ms)
        & (F.col("next_ms") >= from_ms - REPLACED_MS_MAX)
    )
    last = F.when(ends_rest, F.col("place"))
    was_full = F.when(F.col("members") >= F.col("members_then"), last)
    return (
        placed.where("coming is not null")
        .withColumn("members_then", members_then)
        .groupBy(*GROUP, from_ms.alias("from_ms"))
        .agg(F.coalesce(F.max_by("next_ms", was_full), F.max_by("next_ms", last)).alias("begun_ms"))
    )


def _cost_ends(placed: DataFrame) -> DataFrame:
    """`settled_ms`: when the group was at rest after the last replacement had arrived."""
    of = Window.partitionBy(*GROUP, "of.from_ms")
    at_ms, to_ms, place = F.col("at_ms"), F.col("of.to_ms"), F.col("place")
    members_before = F.max_by("members", F.when(at_ms < to_ms, place)).over(of)
    is_last_of_moment = ~F.col("next_ms").eqNullSafe(at_ms)
    is_back = (
        is_last_of_moment
        & at_ms.between(to_ms, to_ms + REPLACED_MS_MAX)
        & (F.col("members") >= F.coalesce("members_before", F.lit(0)))
    )
    full_place = F.coalesce(
        F.min(F.when(is_back, place)).over(of), F.max(F.when(at_ms == to_ms, place)).over(of)
    )
    is_at_rest = F.col("state").isin(*_AT_REST) & (place >= F.col("full_place"))
    return (
        placed.where("of is not null")
        .withColumn("members_before", members_before)
        .withColumn("full_place", full_place)
        .groupBy(*GROUP, F.col("of.from_ms").alias("from_ms"))
        .agg(F.min(F.when(is_at_rest, at_ms)).alias("settled_ms"))
    )


# -- the parts of the cost: rows with the moment at which they begin -------------------------------


def _conversions(changes: DataFrame) -> DataFrame:
    found = changes.where(is_any(GroupConverted))
    return found.select(*GROUP, "at_ms", F.lit(1).alias("conversion"))


def _rebalances(rebalances: DataFrame) -> DataFrame:
    longer_ms = F.col("to_ms") - F.col("from_ms") - STALL_MS
    return rebalances.select(
        *GROUP,
        F.col("from_ms").alias("at_ms"),
        F.lit(1).alias("rebalance"),
        F.greatest(F.lit(0), F.coalesce(longer_ms, F.lit(0))).alias("longer_ms"),
        F.col("members_disturbed").alias("disturbed"),
    )


def _gaps(ownership: DataFrame) -> DataFrame:
    unowned_ms = F.col("to_ms") - F.col("from_ms") - F.col("empty_ms")
    ended = ownership.where((F.col("kind") == "gap") & F.col("to_ms").isNotNull())
    return ended.select(
        *GROUP,
        F.col("from_ms").alias("at_ms"),
        F.col("to_ms").alias("gap_to_ms"),
        (unowned_ms / 1000).alias("unowned_s"),
    )


def _costs() -> Mapping[str, Column]:
    counted_ms = F.least("gap_to_ms", "cost_to_ms") - F.col("at_ms")
    share = counted_ms / (F.col("gap_to_ms") - F.col("at_ms"))
    target = F.when(F.col("direction") == "classic->consumer", NATIVE).otherwise(CLASSIC)
    return {
        "conversions": F.col("conversion"),
        "steps": (F.col("arrived") == target).cast("int"),
        "rebalances": F.col("rebalance"),
        "stalls": (F.col("longer_ms") > 0).cast("int"),
        "stalled_ms": F.col("longer_ms"),
        "unowned_partition_s": F.col("unowned_s") * share,
        "disturbed_members": F.col("disturbed"),
    }
