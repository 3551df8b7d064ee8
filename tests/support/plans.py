"""How Spark would compute a table, to be looked at before it does."""

from pyspark.sql import DataFrame

SLOW_JOINS = ("CartesianProduct", "BroadcastNestedLoopJoin")
"""They compare each row with each other one."""


def plan_of(table: DataFrame) -> str:
    """The physical plan."""
    return str(table._jdf.queryExecution().executedPlan().toString())


def check_joins(plan: str) -> None:
    """Every join is one of equal keys."""
    assert [name for name in SLOW_JOINS if name in plan] == []
