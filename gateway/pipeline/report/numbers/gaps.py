"""Unowned time: the length of each ended gap, less the time that its group had no members.

A gap that has not ended may be a topic that no member wants any more, so it is counted but not
timed.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP


def gaps(ownership: DataFrame) -> DataFrame:
    """`from_ms`, `to_ms`, `unowned_ms` and `is_open` of each gap."""
    length_ms = F.col("to_ms") - F.col("from_ms")
    is_open = F.col("to_ms").isNull()
    return ownership.where((F.col("kind") == "gap") & (F.col("basis") == "granted")).select(
        *GROUP,
        "topic",
        "partition",
        "from_ms",
        "to_ms",
        is_open.alias("is_open"),
        F.when(is_open, 0)
        .otherwise(length_ms - F.coalesce("empty_ms", F.lit(0)))
        .alias("unowned_ms"),
    )
