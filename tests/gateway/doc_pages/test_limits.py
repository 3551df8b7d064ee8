"""The documented limits are those of the code."""

from gateway.doc_pages.limits import PAGE, limit_of, page
from gateway.limits import TOTALS


def test_the_page_has_the_tables() -> None:
    """Write the tables with `python -m gateway.doc_pages.limits`."""
    assert PAGE.read_text() == page()


def test_every_total_is_documented_with_its_limit() -> None:
    text = PAGE.read_text()
    assert all(f"| {total.counts} | {limit_of(total)} |" in text for total in TOTALS)
