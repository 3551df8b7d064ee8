"""Every collection has a limit."""

from pyspark.sql import SparkSession

from gateway.pipeline.report.numbers.limits import first_of, of_each
from tests.support.report_tables import table


def test_the_first_rows_and_the_number_of_the_others(spark: SparkSession) -> None:
    """Rows are in the requested order."""
    rows = table(spark, "differences", [{"at_ms": at_ms} for at_ms in (3, 1, 2)])
    found, left_out = first_of(rows, ["at_ms"], 2)
    assert ([row.at_ms for row in found], left_out) == ([1, 2], 1)
    found, left_out = first_of(rows, ["at_ms"], 3)
    assert ([row.at_ms for row in found], left_out) == ([1, 2, 3], 0)


def test_each_of_many_groups_shows_less() -> None:
    """A page with a thousand groups must still open."""
    assert of_each(600, 1) == of_each(600, 50) == 600
    assert of_each(600, 1_000) == 30
    assert of_each(60, 1_000) == 10
