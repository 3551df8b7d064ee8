"""Labels of a time axis are round times that do not overlap."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report.svg import LEFT, RIGHT, Axis
from tests.support.html_pages import Page
from tests.support.reports import START_MS

LABEL_WIDTH = 78
"""The width of a time with milliseconds in the font of the page."""


def labels(axis: Axis) -> list[tuple[float, float, str]]:
    """The position and text of each label."""
    texts = Page(axis.drawn(0, 100)).named("text")
    return [
        (float(each.attributes["x"] or 0), float(each.attributes["y"] or 0), each.text)
        for each in texts
    ]


@given(from_ms=st.integers(-(10**12), 10**16), length_ms=st.integers(0, 10**16))
def test_labels_never_overlap(from_ms: int, length_ms: int) -> None:
    """Their number is limited, for any times."""
    found = labels(Axis(from_ms, from_ms + length_ms))
    for line in {y for _, y, _ in found}:
        places = [x for x, y, _ in found if y == line]
        assert all(b - a > LABEL_WIDTH for a, b in pairwise(places))
        assert all(LEFT <= x <= RIGHT for x in places)


@pytest.mark.parametrize(
    ("length_ms", "first", "second"),
    [
        (100, "08:00:00.000", "08:00:00.020"),
        (60_000, "08:00:00", "08:00:10"),
        (3_600_000, "08:00", "08:10"),
        (86_400_000, "12:00", "18:00"),
        (40 * 86_400_000, "2027-01-21", "2027-01-28"),
    ],
)
def test_labels_are_as_precise_as_their_distance(length_ms: int, first: str, second: str) -> None:
    """They are round times."""
    axis = Axis(START_MS, START_MS + length_ms)
    texts = [text for _, y, text in labels(axis) if y == 113]
    assert texts[:2] == [first, second]


def test_the_date_is_shown_where_it_changes() -> None:
    """It is below the first time, and below the first one of each day."""
    axis = Axis(START_MS, START_MS + 86_400_000)
    dates = [text for _, _, text in labels(axis) if re.fullmatch(r"\d{4}-\d\d-\d\d", text)]
    assert dates == ["2027-01-15", "2027-01-16"]


def test_times_outside_are_moved_to_the_nearer_end() -> None:
    """Nothing is drawn over the names."""
    axis = Axis(1_000, 2_000)
    middle = (LEFT + RIGHT) / 2
    found = [axis.x(at_ms) for at_ms in (0, 1_000, 1_500, 2_000, 9_000)]
    assert found == [LEFT, LEFT, middle, RIGHT, RIGHT]
