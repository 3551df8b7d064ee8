"""The ownership maps: what is drawn of each group, the worst first, and what a limit leaves out."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.report.model import Interval, OwnershipMap, PartitionStory
from gateway.pipeline.report.numbers.chosen import Chosen, Key, key_of
from gateway.pipeline.report.numbers.limits import made, of_each
from gateway.pipeline.report.window import Span

PARTITIONS_MAX = 40
INTERVALS_MAX = 600
"""Intervals per group, fewer if there are very many groups: see `of_each`."""

_PLACE = ("topic", "partition")


def maps(
    ownership: DataFrame, windows: Mapping[Key, tuple[Span, Span]]
) -> Mapping[Key, OwnershipMap]:
    """The maps of groups. `windows` has the span to show and the whole span of each group."""
    shown = {key: window for key, (window, _) in windows.items()}
    chosen = Chosen(ownership.sparkSession, shown, "shown_from_ms long, shown_to_ms long")
    drawn = _ranked(_clipped(chosen.of(ownership)))
    most = of_each(INTERVALS_MAX, len(windows))
    few = drawn.where((F.col("rank") <= PARTITIONS_MAX) & (F.col("nth") <= most))
    rows = few.orderBy(*GROUP, *_PLACE, "from_ms", "kind", "member_id", "other_member_id").collect()
    by_group = groupby(rows, key=key_of)
    return {key: _map(list(found), *windows[key]) for key, found in by_group}


def _clipped(ownership: DataFrame) -> DataFrame:
    """Granted intervals, and overlaps of either basis, within the span to show."""
    relevant = (F.col("basis") == "granted") | (F.col("kind") == "overlap")
    clipped = (
        ownership.where(relevant)
        .select(
            *GROUP,
            *_PLACE,
            "kind",
            "member_id",
            "other_member_id",
            F.greatest("from_ms", "shown_from_ms").alias("from_ms"),  # ignores nulls
            F.least("to_ms", "shown_to_ms").alias("to_ms"),
            (F.col("shown_from_ms") == F.col("shown_to_ms")).alias("is_moment"),
        )
        .distinct()
    )
    has_length = (F.col("from_ms") < F.col("to_ms")) | (
        (F.col("from_ms") == F.col("to_ms")) & ((F.col("kind") == "overlap") | F.col("is_moment"))
    )
    return clipped.where(has_length)


def _ranked(drawn: DataFrame) -> DataFrame:
    """Adds `rank` of the partition and `nth` of the interval in the group, and the group's totals
    as `partitions` and `intervals`."""
    length_ms = F.col("to_ms") - F.col("from_ms")
    is_overlap, is_gap = F.col("kind") == "overlap", F.col("kind") == "gap"
    of_partition = Window.partitionBy(*GROUP, *_PLACE)
    in_group = Window.partitionBy(*GROUP)
    bad = drawn.select(
        "*",
        F.max(is_overlap).over(of_partition).alias("is_bad"),
        F.sum(F.when(is_gap, length_ms).otherwise(0)).over(of_partition).alias("gap_ms"),
    )
    worst_first = (F.desc("is_bad"), F.desc("gap_ms"), *_PLACE)
    ranked = bad.withColumn("rank", F.dense_rank().over(in_group.orderBy(*worst_first)))
    in_partition = (F.desc(is_overlap), F.desc(is_gap), F.desc(length_ms), "from_ms", "member_id")
    return ranked.select(
        "*",
        F.max("rank").over(in_group).alias("partitions"),
        F.count("*").over(in_group).alias("intervals"),
        F.row_number().over(in_group.orderBy("rank", *in_partition)).alias("nth"),
    )


def _map(rows: Sequence[Row], shown: Span, whole: Span) -> OwnershipMap:
    histories = tuple(
        PartitionStory(
            topic=topic, partition=partition, intervals=tuple(made(Interval, row) for row in found)
        )
        for (topic, partition), found in groupby(rows, key=lambda row: (row.topic, row.partition))
    )
    return OwnershipMap(
        from_ms=shown[0],
        to_ms=shown[1],
        is_all=shown == whole,
        partitions=histories,
        partitions_left_out=rows[0].partitions - len(histories),
        intervals_left_out=rows[0].intervals - len(rows),
    )
