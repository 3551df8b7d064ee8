"""What Spark's Python processes do besides the fold."""

import random

from gateway.events.group_events import GroupCreated
from gateway.pipeline.fold.sequences import Number, SequenceKey
from gateway.pipeline.fold.tables import PIECE_MIN
from gateway.pipeline.spark.folding import (
    Pieces,
    packed_lines,
    packed_numbers,
    unpacked_lines,
    unpacked_numbers,
)
from tests.support.event_writer import EventWriter


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
    numbers = [Number(n, 10 * n, "é", dice.choice((-n, n)), True) for n in range(1, 200)]
    numbers += dice.sample(numbers, 50)
    for _ in range(20):
        cuts = sorted({0, *dice.sample(range(len(numbers)), 9)})
        key = SequenceKey("g", None, "p", None)
        rows = [
            packed_numbers(key, numbers[cut:end])
            for cut, end in zip(cuts, [*cuts[1:], len(numbers)], strict=True)
        ]
        rows.sort(key=lambda row: row.first)
        assert list(unpacked_numbers(rows)) == sorted(numbers)
        dice.shuffle(numbers)
