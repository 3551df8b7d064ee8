"""Items travel through Spark in packed rows, and come back in their order."""

import random
from itertools import chain

import pyarrow as pa
import pytest

from gateway.events.group_events import GroupCreated
from gateway.pipeline.fold.folding import GATEWAY, GROUP, Item, ItemKey
from gateway.pipeline.fold.sequences import Number
from gateway.pipeline.spark import packing
from gateway.pipeline.spark.packing import PACKED, PackedRow, items_of, pack, unpack
from tests.support.event_writer import EventWriter


def parsed_rows(lines: list[str]) -> list[list[str]]:
    """The lines of each row of a group, by the order in which Spark gets them."""
    read = [{"file": "f", "place": None, "block": 0, "line": line} for line in lines]
    schema = pa.schema(
        [
            ("file", pa.string()),
            ("place", pa.string()),
            ("block", pa.int64()),
            ("line", pa.string()),
        ]
    )
    batches = packing._parse([pa.RecordBatch.from_pylist(read, schema)])
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(list(row) == PACKED.names for row in rows)
    items = [items_of(PackedRow(**row)) for row in rows if row["kind"] == GROUP]
    return [[text for _at_ms, text, *_place in its] for its in items]


def test_a_row_has_the_next_lines_of_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait for others of their group until there are enough of them, or of all."""
    one, other = EventWriter(group_id="one"), EventWriter(group_id="other")
    for second in range(10):
        one.emit(second, GroupCreated(kind="classic"))
        other.emit(second, GroupCreated(kind="classic"))
    mixed = [line for pair in zip(one.lines, other.lines, strict=True) for line in pair]
    assert parsed_rows(mixed) == [one.lines, other.lines]
    monkeypatch.setattr(packing, "_ITEMS_MAX", 8)
    assert list(map(len, parsed_rows(mixed))) == [8, 8, 2, 2]
    monkeypatch.setattr(packing, "_WAITING_CHARS_MAX", 5 * len(mixed[0]))
    assert max(map(len, parsed_rows(mixed))) == 3


@pytest.mark.parametrize("kind", [GROUP, GATEWAY])
def test_packed_items_come_back_in_their_order(kind: int) -> None:
    """This holds also for items of several files, which repeat some or have them in another order,
    and for lines with line breaks, as records of a topic may have."""
    rng = random.Random(0)
    items: list[Item] = [(rng.randrange(100), f"{{\n{number}}}") for number in range(200)]
    if kind == GATEWAY:
        items = [Number(n, 10 * n, n % 4, rng.choice((-n, n))) for n in range(1, 200)]
    items += rng.sample(items, 50)
    for _ in range(20):
        cuts = sorted({0, *rng.sample(range(len(items)), 9)})
        rows = [
            pack(ItemKey(kind, "orders"), items[cut:end])
            for cut, end in zip(cuts, [*cuts[1:], len(items)], strict=True)
        ]
        rows.sort(key=lambda row: row.first)
        unpacked = [*chain(*unpack(rows))]
        assert [item[0] for item in unpacked] == [item[0] for item in sorted(items)]
        assert sorted(unpacked) == sorted(items)
        rng.shuffle(items)
