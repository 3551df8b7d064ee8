"""Old lines are left out, but for what a group had when the others begin."""

import json

from gateway.pipeline.fold.sequences import Number, RunKey, fold_runs
from gateway.pipeline.spark import retention
from gateway.pipeline.spark.packing import packed_numbers, unpacked_numbers
from tests.support.folded_lines import folded
from tests.support.stories import START_MS, played

DAYS = """0 load
1 grant a t-0
100 load a:t-0
200 commit a t-0=5
300 load a:t-0
400 end a t-0 left
400 grant b t-0
"""


def test_a_group_begins_with_its_last_state_before() -> None:
    texts = played(DAYS).lines
    lines = [(json.loads(text)["at_ms"], text) for text in texts]
    for at_s, first in ((50, 0), (150, 2), (350, 4), (500, 4)):
        assert retention.since_loaded(lines, START_MS + at_s * 1000) == lines[first:], at_s
    assert retention.since_loaded(lines, START_MS) == lines
    kept = [text for _at_ms, text in retention.since_loaded(lines, START_MS + 350_000)]
    assert [row.kind for row in folded(*kept).unread] == ["no end"]


def test_one_number_stands_for_all_before() -> None:
    """A gap among them is forgotten, and one behind them is not."""
    numbers = [Number(n, 10 * n, 1, n) for n in (1, 2, 4, 5, 6, 8)]
    key = RunKey("g", 1, "p")
    row = packed_numbers(key, numbers)
    (left,) = retention._numbers_since("p", [row], 55)
    kept = list(unpacked_numbers([left]))
    assert [number.sequence for number in kept] == [5, 6, 8]
    gaps = [(row.first, row.last) for row in fold_runs([(key, kept)]) if row.kind == "missing"]
    assert gaps == [(7, 7)]
