"""What Spark's Python processes do besides the fold."""

from gateway.events.group_events import GroupCreated
from gateway.pipeline.fold.row import columns
from gateway.pipeline.fold.tables import ALL_ROWS, PIECE_MIN
from gateway.pipeline.spark.folding import Pieces, struct_of
from gateway.pipeline.spark.packing import packed_lines
from tests.support.event_writer import EventWriter


def test_the_rows_of_every_table_can_be_stored() -> None:
    """A column for each field of the row."""
    for row in ALL_ROWS.values():
        assert struct_of(row).names == list(columns(row))


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
        found = list(pieces)
        assert list(map(len, found)) == [PIECE_MIN, PIECE_MIN, 1]
        numbers = [each.sequence for some in found for each in some]
        assert numbers == list(range(1, len(lines) + 1))
    pieces.close()
    assert len(Pieces(rows[:1])) == 1
