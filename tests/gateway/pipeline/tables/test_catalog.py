"""Tables, rows and columns have one source."""

from dataclasses import fields

from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.catalog import ALL_ROWS, Tables
from gateway.pipeline.tables.row import columns


def test_every_table_is_folded_and_has_columns() -> None:
    """Its rows can be stored."""
    assert [each.name for each in fields(Tables)] == list(ALL_ROWS)
    for row in ALL_ROWS.values():
        assert struct_of(row).names == list(columns(row))
