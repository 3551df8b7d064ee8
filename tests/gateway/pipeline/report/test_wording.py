"""Numbers and times for people."""

import pytest

from gateway.pipeline.report.wording import count_of, date_time, duration, number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (1_234_567, "1,234,567"),
        (0.0, "0"),
        (3.0, "3"),
        (0.0004, "<0.001"),
        (0.0126, "0.013"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (99.96, "100"),
        (1234.56, "1,235"),
    ],
)
def test_numbers_are_rounded_and_grouped(value: float, text: str) -> None:
    """A value other than zero is never shown as 0."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_940, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d 0 h"),
        (90_000_000_000, "1,041 d 16 h"),
    ],
)
def test_durations_have_two_units(length_ms: int, text: str) -> None:
    """These are the two largest."""
    assert duration(length_ms) == text


def test_a_number_agrees_with_its_noun() -> None:
    """The noun is singular or plural."""
    assert count_of(1, "group") == "1 group"
    assert count_of(2_000, "group") == "2,000 groups"
    assert count_of(2, "event is", "events are") == "2 events are"


@pytest.mark.parametrize(("at_ms", "year"), [(-1, 1970), (1_800_000_000_000, 2027), (10**30, 9999)])
def test_every_number_has_a_date(at_ms: int, year: int) -> None:
    """Lines of events can contain any number."""
    assert date_time(at_ms).year == year
