"""The steps of migrations: from each arrival of a member at the new protocol to the next."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.pipeline.report.model import StepCost
from gateway.pipeline.report.numbers.limits import first_of, made
from gateway.pipeline.stories import GROUP

COSTS_MAX = 24
"""Steps of a migration that are summed up over all groups: the first ones."""

_MIGRATION = (*GROUP, "migration_from_ms")


def steps(
    arrivals: DataFrame, migrations: DataFrame, gaps: DataFrame, shares: DataFrame
) -> DataFrame:
    """With `migration` and `number` from 1, `from_ms`, `to_ms` (null: still), members after it, and
    the time `unowned_ms` that lies in it."""
    found = _with_shares(_steps(arrivals, _numbered(migrations)), shares)
    shared_ms = F.least("to_ms", "gap_to_ms") - F.greatest("from_ms", "gap_from_ms")
    # Where a group had no members in a gap, that part of it is spread over the whole.
    density = F.col("unowned_ms") / (F.col("gap_to_ms") - F.col("gap_from_ms"))
    ended = gaps.where(F.col("unowned_ms") > 0).select(
        *GROUP,
        F.col("from_ms").alias("gap_from_ms"),
        F.col("to_ms").alias("gap_to_ms"),
        "unowned_ms",
    )
    touched = found.join(ended, list(GROUP)).where(
        (F.col("gap_to_ms") > F.col("from_ms"))
        & (F.col("to_ms").isNull() | (F.col("gap_from_ms") < F.col("to_ms")))
    )
    key = [*GROUP, "migration", "number"]
    unowned = touched.groupBy(*key).agg(F.sum(shared_ms * density).alias("unowned_ms"))
    return found.join(unowned, key, "left").fillna(0.0, "unowned_ms")


def costs(steps: DataFrame) -> tuple[tuple[StepCost, ...], int]:
    """By number, over all migrations, and how many numbers are left out."""
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
        F.col("from_ms").alias("migration_from_ms"),
        F.col("to_ms").alias("migration_to_ms"),
    )


def _steps(arrivals: DataFrame, migrations: DataFrame) -> DataFrame:
    speaks = F.when(F.col("target") == "consumer", "consumer").otherwise("classic")
    begun = arrivals.withColumnRenamed("at_ms", "from_ms")
    inside = begun.join(migrations, list(GROUP)).where(
        (F.col("arrived") == speaks)
        & (F.col("from_ms") >= F.col("migration_from_ms"))
        & (F.col("migration_to_ms").isNull() | (F.col("from_ms") <= F.col("migration_to_ms")))
    )
    in_migration = Window.partitionBy(*_MIGRATION).orderBy("from_ms")
    key = (*_MIGRATION, "migration", "migration_to_ms", "from_ms")
    return (
        inside.select(*key)
        .distinct()
        .select(
            *GROUP,
            "migration",
            F.row_number().over(in_migration).alias("number"),
            "from_ms",
            F.coalesce(F.lead("from_ms").over(in_migration), F.col("migration_to_ms")).alias(
                "to_ms"
            ),
        )
    )


def _with_shares(steps: DataFrame, shares: DataFrame) -> DataFrame:
    """Members of either protocol when it began."""
    counts = F.struct("classic_members", "consumer_members")
    changes = shares.select(*GROUP, "from_ms", counts.alias("counts"), F.lit(0).alias("number"))
    both = changes.unionByName(steps, allowMissingColumns=True)
    so_far = Window.partitionBy(*GROUP).orderBy("from_ms", "number")
    last = F.last("counts", ignorenulls=True).over(
        so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return both.withColumn("counts", last).where("number > 0").select(*steps.columns, "counts.*")
