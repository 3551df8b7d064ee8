"""How the rows of one group, or of one thing in it, are seen together: in the order of `place`.

Frames that reach to the last row would be computed anew for each row; walking backwards is how to
see what comes later.
"""

from pyspark.sql import Column, Window, WindowSpec
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP


def whole(*keys: str) -> WindowSpec:
    """All rows of a thing, which `keys` name within its group."""
    return Window.partitionBy(*GROUP, *keys)


def so_far(*keys: str) -> WindowSpec:
    """Its rows up to this one."""
    return whole(*keys).orderBy("place")


def from_here(*keys: str) -> WindowSpec:
    """Its rows from this one on, the last one first."""
    return whole(*keys).orderBy(F.desc("place"))


def but_this(window: WindowSpec) -> WindowSpec:
    """Without this row."""
    return window.rowsBetween(Window.unboundedPreceding, -1)


def newest(value: Column | str, window: WindowSpec) -> Column:
    """The value, not null, that is nearest to this row."""
    return F.last(value, ignorenulls=True).over(window)


def oldest(value: Column, *keys: str) -> Column:
    """The first value of a thing that is not null."""
    return F.min_by(value, F.when(value.isNotNull(), F.col("place"))).over(whole(*keys))
