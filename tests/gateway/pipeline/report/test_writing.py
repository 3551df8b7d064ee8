"""The two files of a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from gateway.pipeline.report.model import Report, Totals
from gateway.pipeline.report.page import page
from tests.support.report_tables import COLUMNS, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AnyRow(BaseModel):
    """Stands in for the models of all rows."""

    group_id: str


class Line(BaseModel):
    """Rejected rows."""

    file: str


def test_an_empty_report_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    """The JSON can be read, the page is made from it, and an older report is replaced."""
    from gateway.pipeline.folders import Folder
    from gateway.pipeline.report.writing import NUMBERS, PAGE, write_report

    (tmp_path / PAGE).write_text("an older one")
    rows_of: dict[str, type[BaseModel]] = {**dict.fromkeys(COLUMNS, AnyRow), "rejected": Line}
    made = write_report(tables(spark), rows_of, Folder(spark, str(tmp_path)), 50)
    assert made == Report(totals=Totals(), evidence=made.evidence)
    assert Report.model_validate_json((tmp_path / NUMBERS).read_text()) == made
    assert (tmp_path / PAGE).read_text() == page(made)
    assert {each.name for each in tmp_path.glob("[!.]*")} == {NUMBERS, PAGE}
