"""The documentation of the tables matches the models."""

import pytest
from pydantic import TypeAdapter

from gateway.doc_pages.report import PAGE, page
from gateway.pipeline.fold.rows import ALL_ROWS


def test_the_documentation_matches_the_models() -> None:
    """To regenerate it, run `python -m gateway.doc_pages.report`."""
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("name", ALL_ROWS)
def test_every_column_has_a_meaning(name: str) -> None:
    columns = TypeAdapter(ALL_ROWS[name]).json_schema()["properties"]
    assert [column for column, schema in columns.items() if not schema.get("description")] == []
