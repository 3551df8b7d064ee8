"""Tables, rows and columns have one source."""

from dataclasses import fields

from gateway.pipeline.fold.row import columns
from gateway.pipeline.fold.tables import ALL_ROWS, Tables
from gateway.pipeline.spark.folding import struct_of


def test_every_table_is_folded_and_has_columns() -> None:
    """Its rows can be stored."""
    assert [each.name for each in fields(Tables)] == list(ALL_ROWS)
    for row in ALL_ROWS.values():
        assert struct_of(row).names == list(columns(row))
