"""The members' own claims to partitions, made by a join, a heartbeat or a commit. Nothing here is
derived from the engine's grants."""

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from coordinator.interface.volatile_records import ClassicPhase, MemberPhase
from gateway.events.group_events import GroupStateMoved
from gateway.events.member_events import MemberStateMoved, PartitionsStated
from gateway.events.offset_events import NO_MEMBER, OffsetsCommitted
from gateway.pipeline.group_histories import GROUP, GroupHistories
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.granted import PARTITION


def evidence(histories: GroupHistories) -> DataFrame:
    """Each member's claims to each partition: `from_ms` to `to_ms`, and whether it `is_commit`,
    with the number of `rounds` begun by then.

    Each statement of a member begins a round. So does each rebalance that makes it rejoin, where a
    client that makes no statements may lose a partition silently.
    """
    told = histories.of(PartitionsStated, OffsetsCommitted, GroupStateMoved, MemberStateMoved)
    is_commit = is_any(OffsetsCommitted)
    is_rejoin = F.col("to_state").isin(
        ClassicPhase.PREPARING_REBALANCE, MemberPhase.PREPARE_REBALANCE
    )
    said = told.where(is_rejoin | (F.col("to_state").isNull() & (F.col("member_id") != NO_MEMBER)))
    words = said.select(
        *GROUP,
        "member_id",
        is_commit.alias("is_commit"),
        F.coalesce(
            "partitions", F.transform_values("offsets", lambda _topic, each: each["partition"])
        ).alias("partitions"),
        F.explode(
            F.when(is_commit, F.array_distinct(F.array("from_ms", "to_ms"))).otherwise(
                F.array("at_ms")
            )
        ).alias("at_ms"),
    )
    begun = F.sum(F.when(F.col("is_commit"), 0).otherwise(1))
    of_group = F.when(F.col("member_id").isNull(), 1).otherwise(0)
    rounds = begun.over(_in_time("member_id")) + F.sum(of_group).over(_in_time())
    round_of = ("member_id", "rounds", "is_commit")
    # Most claims of a round are about the same partitions, so they are combined first.
    return (
        words.withColumn("rounds", rounds)
        .select("*", F.explode("partitions").alias("topic", "numbers"))
        .groupBy(*GROUP, *round_of, "topic", "numbers")
        .agg(F.min("at_ms").alias("from_ms"), F.max("at_ms").alias("to_ms"))
        .select("*", F.explode("numbers").alias("partition"))
        .groupBy(*PARTITION, *round_of)
        .agg(F.min("from_ms").alias("from_ms"), F.max("to_ms").alias("to_ms"))
    )


def _in_time(*names: str) -> WindowSpec:
    ordered = Window.partitionBy(*GROUP, *names).orderBy("at_ms", "is_commit")
    return ordered.rangeBetween(Window.unboundedPreceding, Window.currentRow)


def stated(evidence: DataFrame) -> DataFrame:
    """Intervals of `member_id`: from the first claim to the last, without an intermediate round
    that leaves the partition out. Positions are times."""
    in_time = Window.partitionBy(*PARTITION, "member_id").orderBy("rounds", "is_commit")
    # A statement begins a round, so the previous round must have claimed the partition too.
    expected = F.col("rounds") - F.when(F.col("is_commit"), 0).otherwise(1)
    is_new = F.coalesce(F.lag("rounds").over(in_time) < expected, F.lit(True))
    return (
        evidence.withColumn("is_new", is_new.cast("int"))
        .withColumn("stint", F.sum("is_new").over(in_time))
        .groupBy(*PARTITION, "member_id", "stint")
        .agg(F.min("from_ms").alias("from_ms"), F.max("to_ms").alias("to_ms"))
        .withColumns(
            {
                "from_position": F.col("from_ms"),
                "to_position": F.col("to_ms"),
                "leaves_gap": F.lit(True),
            }
        )
        .drop("stint")
    )
