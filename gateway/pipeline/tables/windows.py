"""Windows over the rows of a group, or of one thing in it, in the order of `place`.

A frame that reaches to the last row would be recomputed for each row, so later rows are seen by
going backwards.
"""

from pyspark.sql import Column, Window, WindowSpec
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP


def whole(*keys: str) -> WindowSpec:
    """All rows of a thing; `keys` identify it within its group."""
    return Window.partitionBy(*GROUP, *keys)


def so_far(*keys: str) -> WindowSpec:
    """The rows up to this one."""
    return whole(*keys).orderBy("place")


def from_here(*keys: str) -> WindowSpec:
    """The rows from this one on, latest first."""
    return whole(*keys).orderBy(F.desc("place"))


def but_this(window: WindowSpec) -> WindowSpec:
    """The window without this row."""
    return window.rowsBetween(Window.unboundedPreceding, -1)


def newest(value: Column | str, window: WindowSpec) -> Column:
    """The nearest value that is not null."""
    return F.last(value, ignorenulls=True).over(window)


def oldest(value: Column, *keys: str) -> Column:
    """The first value of a thing that is not null."""
    return F.min_by(value, F.when(value.isNotNull(), F.col("place"))).over(whole(*keys))
