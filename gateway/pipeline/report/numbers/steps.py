"""The steps of migrations: from one member's arrival at the new protocol to the next."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.report.model import StepCost
from gateway.pipeline.report.numbers.limits import first_of, made
from gateway.pipeline.tables.migrations import in_migrations

COSTS_MAX = 24
"""Steps that are summed over all groups: the first ones of each migration."""


def steps(
    arrivals: DataFrame, migrations: DataFrame, gaps: DataFrame, shares: DataFrame
) -> DataFrame:
    """The steps with `migration` and `number` from 1, `from_ms`, `to_ms` (null: not ended), the
    members after the step, and the unowned time `unowned_ms` during it."""
    found = _with_shares(_steps(arrivals, _numbered(migrations)), shares)
    key = [*GROUP, "migration", "number"]
    return found.join(_unowned(found, gaps), key, "left").fillna(0.0, "unowned_ms")


def costs(steps: DataFrame) -> tuple[tuple[StepCost, ...], int]:
    """The costs by step number, over all migrations, and how many numbers are left out."""
    by_number = steps.groupBy("number").agg(
        F.count("*").alias("steps"),
        (F.sum("unowned_ms") / 1000).alias("unowned_partition_s"),
        (F.max("unowned_ms") / 1000).alias("unowned_partition_s_most"),
    )
    rows, left_out = first_of(by_number, ["number"], COSTS_MAX)
    return tuple(made(StepCost, row) for row in rows), left_out


def _numbered(migrations: DataFrame) -> DataFrame:
    in_group = Window.partitionBy(*GROUP).orderBy("from_ms")
    return migrations.select(
        *GROUP,
        F.row_number().over(in_group).alias("migration"),
        F.element_at(F.split("direction", "->"), 2).alias("target"),
        *("from_ms", "to_ms", "cost_from_ms", "cost_to_ms"),
    )


def _steps(arrivals: DataFrame, migrations: DataFrame) -> DataFrame:
    speaks = F.when(F.col("target") == "consumer", "consumer").otherwise("classic")
    inside = in_migrations(arrivals, migrations).where(F.col("arrived") == speaks)
    in_migration = Window.partitionBy(*GROUP, "migration").orderBy("at_ms")
    return (
        inside.select(*GROUP, "migration", "cost_from_ms", "cost_to_ms", "at_ms")
        .distinct()
        .select(
            *GROUP,
            "migration",
            F.row_number().over(in_migration).alias("number"),
            F.col("at_ms").alias("from_ms"),
            F.coalesce(F.lead("at_ms").over(in_migration), "cost_to_ms").alias("to_ms"),
            # The first step also has the cost from the start of the migration to its arrival.
            F.when(F.lag("at_ms").over(in_migration).isNull(), F.col("cost_from_ms"))
            .otherwise(F.col("at_ms"))
            .alias("cost_from_ms"),
        )
    )


def _unowned(steps: DataFrame, gaps: DataFrame) -> DataFrame:
    """The unowned time of each step that has any."""
    in_group = Window.partitionBy(*GROUP).orderBy("cost_from_ms")
    placed = steps.select(
        *(*GROUP, "migration", "number", F.col("cost_from_ms").alias("from_ms"), "to_ms"),
        F.row_number().over(in_group).alias("place"),
    )
    shared_ms = F.least("to_ms", "gap_to_ms") - F.greatest("from_ms", "gap_from_ms")
    # Time without members in a gap is spread evenly over the gap.
    density = F.col("unowned_ms") / (F.col("gap_to_ms") - F.col("gap_from_ms"))
    return (
        _places(gaps, placed)
        .join(placed, [*GROUP, "place"])
        .where(shared_ms > 0)
        .groupBy(*GROUP, "migration", "number")
        .agg(F.sum(shared_ms * density).alias("unowned_ms"))
    )


def _places(gaps: DataFrame, placed: DataFrame) -> DataFrame:
    """One row for each gap and each step that it may overlap: from the last step before the gap to
    the last step that begins in it. Gaps with the same times are combined."""
    ended = (
        gaps.where(F.col("unowned_ms") > 0)
        .groupBy(*GROUP, F.col("from_ms").alias("gap_from_ms"), F.col("to_ms").alias("gap_to_ms"))
        .agg(F.sum("unowned_ms").alias("unowned_ms"))
    )
    gap = ("gap_from_ms", "gap_to_ms", "unowned_ms")
    ends = F.array(*(F.col(end).alias("at_ms") for end in ("gap_from_ms", "gap_to_ms")))
    edges = ended.select(*GROUP, *gap, F.explode(ends).alias("at_ms"))
    begun = placed.select(*GROUP, F.col("from_ms").alias("at_ms"), "place")
    in_order = Window.partitionBy(*GROUP).orderBy("at_ms", F.col("place").isNull())
    passed = F.last("place", ignorenulls=True).over(
        in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        edges.unionByName(begun, allowMissingColumns=True)
        .withColumn("passed", passed)
        .where(F.col("gap_from_ms").isNotNull())
        .groupBy(*GROUP, *gap)
        .agg(
            F.coalesce(F.min_by("passed", "at_ms"), F.lit(1)).alias("first"),
            F.max("passed").alias("last"),
        )
        .where(F.col("last").isNotNull())
        .select(*GROUP, *gap, F.explode(F.sequence("first", "last")).alias("place"))
    )


def _with_shares(steps: DataFrame, shares: DataFrame) -> DataFrame:
    """Adds the numbers of members at the start of each step."""
    counts = F.struct("classic_members", "consumer_members")
    changes = shares.select(*GROUP, "from_ms", counts.alias("counts"), F.lit(0).alias("number"))
    both = changes.unionByName(steps, allowMissingColumns=True)
    so_far = Window.partitionBy(*GROUP).orderBy("from_ms", "number")
    last = F.last("counts", ignorenulls=True).over(
        so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return both.withColumn("counts", last).where("number > 0").select(*steps.columns, "counts.*")
