"""How Spark would compute a table, to be looked at before it does."""

import re

from pyspark.sql import DataFrame

SLOW_JOINS = ("CartesianProduct", "BroadcastNestedLoopJoin")
"""They compare each row with each other one."""


_KEYS = re.compile(r"Join \[([^]]*)\], \[")
_NUMBER = re.compile(r"#\d+L?")


def plan_of(table: DataFrame) -> str:
    """The physical plan."""
    return str(table._jdf.queryExecution().executedPlan().toString())


def check_joins(plan: str) -> None:
    """Every join is one of equal keys."""
    assert [name for name in SLOW_JOINS if name in plan] == []


def joins_by_group(plan: str) -> int:
    """How many joins have no key but the group: of each, all rows with all of the other side."""
    keys = (_NUMBER.sub("", found) for found in _KEYS.findall(plan))
    return list(keys).count("cluster_id, group_id")
