"""Lines travel through Spark in packed rows, and come back in their order."""

import random

import pyarrow as pa
import pytest

from gateway.events.group_events import GroupCreated
from gateway.pipeline.fold.sequences import Number, RunKey
from gateway.pipeline.spark import packing
from gateway.pipeline.spark.packing import (
    OF_GROUP,
    PARSED,
    SEPARATOR,
    packed_lines,
    packed_numbers,
    unpacked_lines,
    unpacked_numbers,
)
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
    assert all(list(row) == PARSED.names for row in rows)
    return [row["line"].split(SEPARATOR) for row in rows if row["kind"] == OF_GROUP]


def test_a_row_has_the_next_lines_of_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait for others of their group until there are enough of them, or of all."""
    one, other = EventWriter(group_id="one"), EventWriter(group_id="other")
    for second in range(10):
        one.tell(second, GroupCreated(kind="classic"))
        other.tell(second, GroupCreated(kind="classic"))
    mixed = [line for pair in zip(one.lines, other.lines, strict=True) for line in pair]
    assert parsed_rows(mixed) == [one.lines, other.lines]
    monkeypatch.setattr(packing, "_LINES_MAX", 8)
    assert list(map(len, parsed_rows(mixed))) == [8, 8, 2, 2]
    monkeypatch.setattr(packing, "_WAITING_CHARS_MAX", 5 * len(mixed[0]))
    assert max(map(len, parsed_rows(mixed))) == 3


def test_packed_lines_come_back_in_the_order_of_their_times() -> None:
    """Also those of several files, and those with line breaks, as records of a topic may have."""
    dice = random.Random(0)
    lines = [(dice.randrange(100), f"{{\n{number}}}") for number in range(200)]
    for _ in range(20):
        cuts = sorted({0, *dice.sample(range(len(lines)), 9)})
        rows = [
            packed_lines("orders", lines[cut:end])
            for cut, end in zip(cuts, [*cuts[1:], len(lines)], strict=True)
        ]
        rows.sort(key=lambda row: row.first)
        found = list(unpacked_lines(rows))
        assert [at_ms for at_ms, _line in found] == sorted(at_ms for at_ms, _line in found)
        assert sorted(found) == sorted(lines)
        dice.shuffle(lines)


def test_packed_numbers_come_back_in_their_order() -> None:
    """Also those of several files, which repeat some numbers, or have them in another order."""
    dice = random.Random(0)
    numbers = [Number(n, 10 * n, n % 4, dice.choice((-n, n))) for n in range(1, 200)]
    numbers += dice.sample(numbers, 50)
    for _ in range(20):
        cuts = sorted({0, *dice.sample(range(len(numbers)), 9)})
        key = RunKey("g", 1, "p")
        rows = [
            packed_numbers(key, numbers[cut:end])
            for cut, end in zip(cuts, [*cuts[1:], len(numbers)], strict=True)
        ]
        rows.sort(key=lambda row: row.first)
        assert list(unpacked_numbers(rows)) == sorted(numbers)
        dice.shuffle(numbers)
