"""One row for each group. `test_whole` checks its content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.report_tables import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_no_pairs_of_all_rows_are_compared(spark: SparkSession) -> None:
    """Tables may have any size."""
    from gateway.pipeline.report.numbers.gaps import gaps
    from gateway.pipeline.report.numbers.groups import groups
    from gateway.pipeline.report.numbers.shares import shares
    from gateway.pipeline.report.numbers.steps import steps
    from gateway.pipeline.tables.migrations import arrivals
    from tests.support.plans import check_joins, joins_by_group, plan_of

    made = tables(spark)
    counted, unowned = shares(made["timeline"]), gaps(made["ownership"])
    taken = steps(arrivals(made["changes"]), made["migrations"], unowned, counted)
    plan = plan_of(groups(made, shares=counted, gaps=unowned, steps=taken))
    assert "Join" in plan
    check_joins(plan)
    assert joins_by_group(plan) == 0
