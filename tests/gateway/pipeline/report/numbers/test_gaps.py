"""Time without an owner that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.report_tables import gap, owner, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_gap_counts_less_the_time_without_members(spark: SparkSession) -> None:
    """Nobody misses what an empty group does not read; a gap that has not ended is not timed."""
    from gateway.pipeline.report.numbers.gaps import gaps

    rows = [owner("a", 0, 10), gap(10, 110, empty_ms=30), gap(200, None)]
    found = gaps(table(spark, "ownership", rows)).orderBy("from_ms").collect()
    assert [(row.from_ms, row.to_ms, row.unowned_ms, row.is_open) for row in found] == [
        (10, 110, 70, False),
        (200, None, 0, True),
    ]
