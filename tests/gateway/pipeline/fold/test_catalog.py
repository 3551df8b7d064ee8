"""Tables, rows and columns have one source."""

from dataclasses import fields

from pydantic import TypeAdapter

from gateway.events.catalog import EVENTS
from gateway.pipeline.fold.figures import FiguresFold
from gateway.pipeline.fold.offsets import OffsetFold
from gateway.pipeline.fold.ownership import OwnershipFold
from gateway.pipeline.fold.rows import ALL_ROWS, TIMES, Tables, columns


def test_every_table_is_folded() -> None:
    """Tables are in the order of the catalogue."""
    assert [table.name for table in fields(Tables)] == list(ALL_ROWS)


def test_every_row_has_a_day() -> None:
    """The day names the row's folder."""
    for name, row in ALL_ROWS.items():
        assert set(TIMES) & set(columns(row)), name


def test_every_table_is_described() -> None:
    for name, row in ALL_ROWS.items():
        assert TypeAdapter(row).json_schema().get("description"), name


def test_what_takes_an_event_is_named_after_it() -> None:
    for part in (FiguresFold, OffsetFold, OwnershipFold):
        assert part.handlers.keys() < EVENTS.keys(), part
