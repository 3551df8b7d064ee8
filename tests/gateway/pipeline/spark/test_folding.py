"""What Spark's Python processes do in addition to the fold."""

from gateway.events.group_events import GroupCreated
from gateway.pipeline.fold.rows import ALL_ROWS, SCHEMA_VERSION, Tables, columns
from gateway.pipeline.spark.folding import PIECE_MIN, Pieces, record_batch, struct_of
from gateway.pipeline.spark.packing import packed_lines
from tests.support.event_writer import EventWriter
from tests.support.folded_lines import folded
from tests.support.planted_faults import FAULTY
from tests.support.stories import played


def test_the_rows_of_every_table_can_be_stored() -> None:
    """A column for each field of the row, with what it means."""
    for row in ALL_ROWS.values():
        struct = struct_of(row)
        assert struct.names == list(columns(row))
        assert all(column.metadata["schema_version"] == SCHEMA_VERSION for column in struct)
    told = [column for column in struct_of(ALL_ROWS["findings"]) if column.name == "is_certain"]
    assert "False if the order of two logs" in told[0].metadata["comment"]


def test_rows_become_columns() -> None:
    tables = folded(*played(FAULTY).lines)
    for name in ALL_ROWS:
        rows = getattr(tables, name)
        assert record_batch(name, rows).num_rows == len(rows), name
    assert record_batch("groups", Tables().groups).schema.names == list(columns(ALL_ROWS["groups"]))


def test_the_lines_of_a_group_may_be_read_again() -> None:
    writer = EventWriter()
    for number in range(2 * PIECE_MIN + 1):
        writer.tell(number, GroupCreated(kind="classic"))
    lines = list(enumerate(writer.lines))
    rows = [
        packed_lines("orders", lines[first : first + 100]) for first in range(0, len(lines), 100)
    ]
    pieces = Pieces(rows)
    for _ in range(2):
        read = list(pieces)
        assert list(map(len, read)) == [PIECE_MIN, PIECE_MIN, 1]
        numbers = [line.sequence for piece in read for line in piece]
        assert numbers == list(range(1, len(lines) + 1))
    pieces.close()
    assert len(Pieces(rows[:1])) == 1
