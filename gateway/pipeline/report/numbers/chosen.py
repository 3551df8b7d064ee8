"""Rows of the groups with a section: up to a limit for each, with a count of the others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP

Key: TypeAlias = tuple[str, str]
"""Cluster id and group id."""
T = TypeVar("T")
Parts: TypeAlias = Mapping[Key, tuple[tuple[T, ...], int]]
"""For each group its parts, and how many are left out."""

_KEY = "cluster_id string, group_id string"


def key_of(row: Row) -> Key:
    """The group of a row."""
    return row.cluster_id, row.group_id


class Chosen:
    """Some groups, optionally with values of their own."""

    def __init__(
        self, spark: SparkSession, groups: Mapping[Key, Sequence[Any]], more: str = ""
    ) -> None:
        """`more` declares the values as Spark's schemas do."""
        self._keys = tuple(groups)
        rows = [(*key, *values) for key, values in groups.items()]
        schema = f"{_KEY}, {more}" if more else _KEY
        self._groups = F.broadcast(spark.createDataFrame(rows, schema))

    def of(self, rows: DataFrame) -> DataFrame:
        """The groups' rows, each with the values of its group."""
        return rows.join(self._groups, list(GROUP))

    def first(
        self, rows: DataFrame, order: Sequence[str | Column], most: int, make: Callable[[Row], T]
    ) -> Parts[T]:
        """Applies `make` to the first rows of each group in that order."""
        in_group = Window.partitionBy(*GROUP)
        numbered = self.of(rows).select(
            "*",
            F.row_number().over(in_group.orderBy(*order)).alias("nth"),
            F.count("*").over(in_group).alias("in_all"),
        )
        found: dict[Key, list[Row]] = {key: [] for key in self._keys}
        for row in numbered.where(F.col("nth") <= most).orderBy(*GROUP, "nth").collect():
            found[key_of(row)].append(row)
        return {
            key: (tuple(map(make, rows)), rows[0].in_all - len(rows) if rows else 0)
            for key, rows in found.items()
        }
