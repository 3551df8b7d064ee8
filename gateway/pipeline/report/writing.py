"""Writes the report's two files: the numbers, and the page made from them."""

from gateway.pipeline.folders import Folder
from gateway.pipeline.report.model import Report
from gateway.pipeline.report.page import page

NUMBERS = "report.json"
PAGE = "report.html"


def write_report(report: Report, output: Folder) -> None:
    """Write the report's files."""
    output.write_text(NUMBERS, report.model_dump_json(indent=2) + "\n")
    output.write_text(PAGE, page(report))
