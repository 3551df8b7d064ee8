"""The documentation of the tables matches the models."""

from gateway.doc_pages.report import PAGE, page


def test_the_documentation_matches_the_models() -> None:
    """To regenerate it, run `python -m gateway.doc_pages.report`."""
    assert PAGE.read_text() == page()
