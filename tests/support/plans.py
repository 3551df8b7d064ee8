"""Checks Spark's query plans before they run."""

import re

from pyspark.sql import DataFrame

SLOW_JOINS = ("CartesianProduct", "BroadcastNestedLoopJoin")
"""The joins that compare every pair of rows."""


_KEYS = re.compile(r"Join \[([^]]*)\], \[")
_NUMBER = re.compile(r"#\d+L?")


def plan_of(table: DataFrame) -> str:
    """The physical plan."""
    return str(table._jdf.queryExecution().executedPlan().toString())


def check_joins(plan: str) -> None:
    """Every join compares keys for equality."""
    assert [name for name in SLOW_JOINS if name in plan] == []


def joins_by_group(plan: str) -> int:
    """The number of joins with only the group as key, which pair all rows of a group."""
    keys = (_NUMBER.sub("", found) for found in _KEYS.findall(plan))
    return list(keys).count("cluster_id, group_id")
