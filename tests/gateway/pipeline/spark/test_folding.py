"""What Spark's Python processes do besides the fold."""

import random

from gateway.events.group_events import GroupCreated
from gateway.pipeline.fold.sequences import Number, SequenceKey
from gateway.pipeline.fold.tables import PIECE_MIN
from gateway.pipeline.spark.folding import (
    OF_GROUP,
    InputRow,
    Pieces,
    packed_numbers,
    unpacked_numbers,
)
from tests.support.event_writer import EventWriter


def test_the_lines_of_a_group_may_be_read_again() -> None:
    writer = EventWriter()
    for number in range(2 * PIECE_MIN + 1):
        writer.tell(number, GroupCreated(kind="classic"))
    rows = [InputRow(0, OF_GROUP, line=line, at_ms=n) for n, line in enumerate(writer.lines)]
    pieces = Pieces(rows)
    for _ in range(2):
        found = list(pieces)
        assert list(map(len, found)) == [PIECE_MIN, PIECE_MIN, 1]
        numbers = [each.line.sequence for some in found for each in some]
        assert numbers == list(range(1, len(rows) + 1))
    pieces.close()
    assert len(Pieces(rows[:1])) == 1


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
        rows.sort(key=lambda row: (row.sequence, row.at_ms))
        assert list(unpacked_numbers(rows)) == sorted(numbers)
        dice.shuffle(numbers)
