"""The two files of a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gateway.pipeline.report.model import Report
from gateway.pipeline.report.numbers.digest import Digest, report
from gateway.pipeline.report.page import page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_an_empty_report_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    """The JSON can be read, the page is made from it, and an older report is replaced."""
    from gateway.pipeline.folders import Folder
    from gateway.pipeline.report.writing import NUMBERS, PAGE, write_report

    (tmp_path / PAGE).write_text("an older one")
    made = report(Digest(top=50), {})
    write_report(made, Folder(spark, str(tmp_path)))
    assert Report.model_validate_json((tmp_path / NUMBERS).read_text()) == made
    assert (tmp_path / PAGE).read_text() == page(made)
    assert {each.name for each in tmp_path.glob("[!.]*")} == {NUMBERS, PAGE}
