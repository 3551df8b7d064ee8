"""Tables, rows and columns have one source."""

from dataclasses import fields

from gateway.json_schemas import json_schema
from gateway.pipeline.fold.rows import ALL_ROWS, TIMES, Tables, columns


def test_every_table_is_folded() -> None:
    """In the order of the catalogue."""
    assert [table.name for table in fields(Tables)] == list(ALL_ROWS)


def test_every_row_has_a_day() -> None:
    """It names the row's folder."""
    for name, row in ALL_ROWS.items():
        assert set(TIMES) & set(columns(row)), name


def test_every_table_is_described() -> None:
    for name, row in ALL_ROWS.items():
        assert json_schema(row).get("description"), name
