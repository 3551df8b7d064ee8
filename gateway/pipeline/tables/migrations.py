"""What each move of a group from one protocol to the other was, and what it cost.

A group is of one protocol, mixed, or empty. A migration leads from one protocol to the other, or
back to the same one if it was given up; it may have been mixed for a while, or empty.

Its cost begins before the first member of the new protocol comes, when the one that it replaces
leaves, and does not end when the last member of the old one leaves: who takes over its partitions,
and who comes in its place, is part of it. So it is counted from rest to rest.
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
"""Who comes later than that is not taken for the one in whose place it comes."""

_MIXED = "mixed"
_AT_REST = ("Stable", "Empty")


class MigrationRow(Row):
    """One migration."""

    direction: Literal["classic->consumer", "consumer->classic"]
    from_ms: int
    """When the first member came with the other protocol, or the last one with the old went."""
    to_ms: int | None
    """When all members spoke one protocol again; null if they do not yet."""
    is_complete: bool
    """Whether that was the other protocol."""
    cost_from_ms: int
    """From when on its cost counts: the group was last at rest, with as many members as when the
    first one came. At most a minute before that."""
    cost_to_ms: int | None
    """Up to when its cost counts: the group is at rest again, with as many members as before the
    last one with the old protocol went, if they come within a minute. Null if it is not yet."""
    conversions: int
    """How often the group changed its kind."""
    steps: int
    """Members that came with the protocol that it leads to."""
    rebalances: int
    """Those that began in it."""
    stalls: int
    """Those of them that took longer than 30 seconds."""
    stalled_ms: int
    """How much longer, in all."""
    unowned_partition_s: float
    """Partition-seconds without an owner in that time, of what began in it, but for the time
    without members."""
    disturbed_members: int
    """By its rebalances; who is disturbed twice counts twice."""


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
    """The rows whose `at_ms` lies where the cost of a migration counts, with its columns, and for
    each migration a row that has nothing else."""
    of = F.struct(*(name for name in migrations.columns if name not in GROUP)).alias("of")
    began = migrations.select(*GROUP, F.col("cost_from_ms").alias("at_ms"), of)
    # They follow one another: what happens is in the one that began last, or in none.
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
    """When members came with a protocol, as new ones or under the id that they had: `arrived`."""
    is_arrival = F.col("is_present") & (
        ~F.col("was_present") | (F.col("protocol") != F.col("protocol_before"))
    )
    return changes.where(is_arrival).select(*GROUP, "at_ms", F.col("protocol").alias("arrived"))


def _migrations(changes: DataFrame) -> DataFrame:
    """From where one protocol ended to where one begins again."""
    mix = (
        F.when(F.col("members") == 0, F.lit(None))
        .when(F.col("classic_members") == F.col("members"), CLASSIC)
        .when(F.col("classic_members") == 0, NATIVE)
        .otherwise(_MIXED)
    )
    in_order = Window.partitionBy(*GROUP).orderBy("place")
    # Within one moment members are counted one by one: what holds is what it was at its end.
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
    # From one protocol to the other without being mixed: with nobody in it, or one for another.
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
    """With `cost_from_ms` and `cost_to_ms`: one ends where the next one begins, at the latest."""
    key = (*GROUP, "from_ms")
    in_group = Window.partitionBy(*GROUP).orderBy("from_ms")
    placed = _around(changes, migrations)
    begun_ms = F.greatest(F.coalesce("begun_ms", "from_ms"), F.lag("to_ms").over(in_group))
    return (
        migrations.join(_begun(placed), [*key], "left")
        .join(_settled(placed), [*key], "left")
        .withColumn("cost_from_ms", begun_ms)
        .withColumn("next_ms", F.lead("cost_from_ms").over(in_group))
        .withColumn("cost_to_ms", F.least("settled_ms", "next_ms"))
        .select(*migrations.columns, "cost_from_ms", "cost_to_ms")
    )


def _around(changes: DataFrame, migrations: DataFrame) -> DataFrame:
    """Each change with the migration that began last (`of`), and the one that begins next."""
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


def _begun(placed: DataFrame) -> DataFrame:
    """`begun_ms`: when somebody left for whom the first one came; or just when the group was no
    longer at rest."""
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


def _settled(placed: DataFrame) -> DataFrame:
    """`settled_ms`: when the group was at rest, after the last one has come in place of another."""
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


# -- what is counted in them: rows with the moment at which they begin ----------------------------


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
