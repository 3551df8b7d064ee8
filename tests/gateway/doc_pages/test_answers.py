"""The documented answers are those of the code."""

from gateway.doc_pages.answers import MARK, PAGE, page
from gateway.hosting.answers import ANSWERS, RefusalReason


def test_the_page_has_the_table() -> None:
    """Write the table with `python -m gateway.doc_pages.answers`."""
    assert PAGE.read_text() == page()


def test_every_situation_and_every_code_is_documented() -> None:
    """The form of the table does not matter."""
    _words, _mark, table = PAGE.read_text().partition(MARK)
    assert all(f"| {cause.value} |" in table for cause in RefusalReason)
    assert all(code.name in table for code in ANSWERS.values() if code is not None)
