"""The number of members of either protocol in each group, over time."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP

_COUNTS = ("classic_members", "consumer_members")


def shares(timeline: DataFrame) -> DataFrame:
    """Spans `from_ms` to `to_ms` (null: not ended) with constant numbers of members."""
    in_group = Window.partitionBy(*GROUP).orderBy("from_ms")
    counted = (
        _changes(timeline)
        .groupBy(*GROUP, "from_ms")
        .agg(*(F.sum(name).alias(name) for name in _COUNTS))
        .select(*GROUP, "from_ms", *(F.sum(name).over(in_group).alias(name) for name in _COUNTS))
    )
    before = F.lag(F.struct(*_COUNTS)).over(in_group)
    return (
        counted.withColumn("is_same", F.struct(*_COUNTS).eqNullSafe(before))
        .where(~F.col("is_same"))
        .select(*GROUP, "from_ms", F.lead("from_ms").over(in_group).alias("to_ms"), *_COUNTS)
    )


def _changes(timeline: DataFrame) -> DataFrame:
    """One more where a member's row begins, one less where it ends. A group's own rows count zero,
    so that groups without members are included."""
    edges = F.array(
        F.struct(F.col("from_ms").alias("at_ms"), F.lit(1).alias("more")),
        F.struct(F.col("to_ms").alias("at_ms"), F.lit(-1).alias("more")),
    )
    found = timeline.select(*GROUP, "member_id", "protocol", F.inline(edges))
    return found.where(F.col("at_ms").isNotNull()).select(
        *GROUP, F.col("at_ms").alias("from_ms"), _of("classic"), _of("consumer")
    )


def _of(protocol: str) -> Column:
    is_one = F.col("member_id").isNotNull() & (F.col("protocol") == protocol)
    return F.when(is_one, F.col("more")).otherwise(0).alias(f"{protocol}_members")
