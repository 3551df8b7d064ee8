"""Tables, rows and columns have one source."""

from dataclasses import fields

from gateway.pipeline.fold.tables import ALL_ROWS, Tables


def test_every_table_is_folded() -> None:
    """In the order of the catalogue."""
    assert [each.name for each in fields(Tables)] == list(ALL_ROWS)
