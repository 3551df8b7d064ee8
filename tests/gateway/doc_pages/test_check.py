"""The documented needs are those that the check tries."""

from gateway.doc_pages.check import PAGE, page


def test_the_page_has_the_tables() -> None:
    """Write the tables with `python -m gateway.doc_pages.check`."""
    assert PAGE.read_text() == page()
