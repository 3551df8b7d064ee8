"""Time without an owner that counts: of gaps that have ended, less what the group had no members.

A gap that is still there may be a topic that nobody wants any more: those are counted, not timed.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP


def gaps(ownership: DataFrame) -> DataFrame:
    """`from_ms`, `to_ms` and `unowned_ms` of each, and `is_open`."""
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
