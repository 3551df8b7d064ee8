"""What Spark's Python processes do in addition to the fold."""

from gateway.events.group_events import GroupCreated
from gateway.pipeline.fold.folding import FILE, GROUP, ItemKey, SourceLine, read_items
from gateway.pipeline.spark.folding import PackedItems, _tables
from gateway.pipeline.spark.packing import pack
from tests.support.event_writer import EventWriter

KEY = ItemKey(GROUP, "orders")


def test_the_items_of_a_group_may_be_read_again() -> None:
    writer = EventWriter()
    for number in range(801):
        writer.emit(number, GroupCreated(kind="classic"))
    lines = list(enumerate(writer.lines))
    rows = [pack(KEY, lines[first : first + 100]) for first in range(0, len(lines), 100)]
    packed = PackedItems(rows)
    for _ in range(2):
        assert list(packed) == lines


def test_unreadable_lines_of_one_file_are_taken_row_by_row() -> None:
    """There may be many such lines: each row of them makes tables of its own, and is read once."""
    lines = [SourceLine("f", f"line {number}", "{") for number in range(10)]
    items = [item for _key, item in read_items(lines)]
    rows = [pack(ItemKey(FILE, "f"), items[first : first + 2]) for first in range(0, 10, 2)]
    made = [tables.unread for tables in _tables(rows)]
    assert [len(unread) for unread in made] == [2] * 5
    assert {row.place for unread in made for row in unread} == {line.place for line in lines}
