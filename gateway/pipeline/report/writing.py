"""Writes the report's two files: the numbers, and the page made from them."""

from collections.abc import Mapping

from pydantic import BaseModel
from pyspark.sql import DataFrame

from gateway.pipeline.folders import Folder
from gateway.pipeline.report.model import Report
from gateway.pipeline.report.numbers.whole import report
from gateway.pipeline.report.page import page

NUMBERS = "report.json"
PAGE = "report.html"


def write_report(
    tables: Mapping[str, DataFrame],
    rows_of: Mapping[str, type[BaseModel]],
    output: Folder,
    top: int,
) -> Report:
    """Write the report on these tables. `rows_of` has the models of their rows; the `top` worst
    groups get a section each."""
    made = report(tables, rows_of, top)
    output.write_text(NUMBERS, made.model_dump_json(indent=2) + "\n")
    output.write_text(PAGE, page(made))
    return made
