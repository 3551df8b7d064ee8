"""The relevant time without an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.report_tables import gap, owner, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_gap_counts_without_the_groups_empty_time(spark: SparkSession) -> None:
    """An empty group needs no owners, and a gap without an end has no length."""
    from gateway.pipeline.report.numbers.gaps import gaps

    rows = [owner("a", 0, 10), gap(10, 110, empty_ms=30), gap(200, None)]
    found = gaps(table(spark, "ownership", rows)).orderBy("from_ms").collect()
    assert [(row.from_ms, row.to_ms, row.unowned_ms, row.is_open) for row in found] == [
        (10, 110, 70, False),
        (200, None, 0, True),
    ]
