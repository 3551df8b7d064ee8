"""Spark alone computes every table, without comparing all pairs of rows."""

from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.catalog import TABLES, Table
from tests.support.group_events import bump, gets, gives, joins, leaves, target
from tests.support.plans import check_joins, joins_by_group, plan_of
from tests.support.scribe import Scribe, histories

PYTHON = "EvalPython"
"""The name in the plan of parts that leave the JVM."""
WITH_ROWS_OF_GROUPS = {"differences": 1, "readiness": 2}
"""The allowed number of joins by group only, with tables that have one row per group. Other joins
need more keys: a group may have thousands of rows per day, and their pairs are millions."""


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Mapping[str, DataFrame]:
    """Each table computed from the histories and stored earlier tables."""
    scribe = Scribe()
    scribe.tell(0, joins("n", "consumer"), bump(2), target(2), gets("n", 0))
    scribe.tell(1, gives("n", 0), leaves("n"), bump(3))
    of_groups = histories(spark, *scribe.lines)
    found: dict[str, DataFrame] = {}
    stored: dict[str, DataFrame] = {}
    for table in TABLES:
        found[table.name] = table.make(of_groups, stored)
        stored[table.name] = spark.createDataFrame([], struct_of(table.row))
    return found


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_has_a_good_plan(table: Table, made: Mapping[str, DataFrame]) -> None:
    """Joins compare keys for equality, not only the group, and no row is processed in Python."""
    plan = plan_of(made[table.name])
    check_joins(plan)
    assert PYTHON not in plan
    assert joins_by_group(plan) <= WITH_ROWS_OF_GROUPS.get(table.name, 0)
    assert set(struct_of(table.row).names) <= set(made[table.name].columns)


def test_a_bad_plan_is_found(spark: SparkSession) -> None:
    """A join with only an inequality compares all pairs of rows."""
    others = spark.range(3).withColumnRenamed("id", "other")
    with pytest.raises(AssertionError):
        check_joins(plan_of(spark.range(3).join(others, F.col("id") < F.col("other"))))
