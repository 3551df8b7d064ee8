"""The rows of tables as Parquet files."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gateway.pipeline import tables
from gateway.pipeline.fold.rows import ALL_ROWS, columns
from gateway.pipeline.folder import Folder
from gateway.pipeline.tables import SCHEMAS, FilesMaker, arrow_table, read_rows, write_files
from tests.gateway.pipeline.planted_faults import FAULTY
from tests.gateway.pipeline.stories import play_story
from tests.support.folded_lines import fold_texts


def test_the_rows_of_every_table_can_be_stored() -> None:
    """A column for each field of the row, with what it means."""
    for name, row in ALL_ROWS.items():
        assert SCHEMAS[name].names == list(columns(row))
        assert SCHEMAS[name].metadata == {b"schema_version": b"2"}
        assert [column.name for column in SCHEMAS[name] if not column.metadata[b"comment"]] == []
    comment = SCHEMAS["findings"].field("is_certain").metadata[b"comment"]
    assert b"False if the order of two logs" in comment


def test_rows_become_columns() -> None:
    made = fold_texts(*play_story(FAULTY).lines)
    for name in ALL_ROWS:
        assert arrow_table(name, getattr(made, name)).num_rows == len(getattr(made, name)), name
        assert arrow_table(name, []).schema == SCHEMAS[name]


def test_rows_that_are_read_are_those_that_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds also if they are in several files, each of a few rows."""
    monkeypatch.setattr(tables, "WAITING_MAX", 3)
    monkeypatch.setattr(tables, "FILE_BYTES_MAX", 200)
    made, output = fold_texts(*play_story(FAULTY).lines), Folder(f"{tmp_path}")
    group_ids = [group.group_id for group in made.groups]
    maker = FilesMaker("rows")
    write_files(output, [*maker.take(made), *maker.finish()])
    for name in ("groups", "ownership", "findings"):
        assert list(read_rows(output, name, group_ids)) == getattr(made, name), name
        assert not list(read_rows(output, name, ["another"]))
    file = next((tmp_path / "tables" / "groups").rglob("*.parquet"))
    meaning = pq.read_schema(file).field("lines").metadata[b"comment"]
    assert meaning == b"Lines about the group, without repeats."
