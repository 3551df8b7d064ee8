"""Numbers and times are readable, and external text is safe to print."""

import json

import pytest

from gateway.readable import (
    count_of,
    date_time,
    escape,
    format_duration,
    format_timestamp,
    number,
    show_value,
)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("orders-3", "orders-3"),
        (40, "40"),
        ("", '""'),
        ("a b", '"a b"'),
        ("\x1b[2J\n", '"\\u001b[2J\\n"'),
        ("Übung", '"\\u00dcbung"'),
        ({"a": [1, 2]}, '{"a":[1,2]}'),
        ("a\x7fb", '"a\\u007fb"'),
    ],
)
def test_only_plain_text_is_printed_unchanged(value: object, line: str) -> None:
    """All other text is JSON on one line, without control characters."""
    assert show_value(value) == line


@pytest.mark.parametrize(
    "unseen",
    [*"\x1b\x07\x7f\x9b\u061c\u200b\u2028\u202e\u2066\ufeff"],
    ids=lambda character: hex(ord(character)),
)
def test_invisible_characters_in_json_are_escaped(unseen: str) -> None:
    """These are control characters of both sets, direction marks, and line separators. The JSON
    value is unchanged."""
    value = {"group_id": f"a{unseen}b", "ü": "plain"}
    line = escape(json.dumps(value, ensure_ascii=False))
    assert unseen not in line
    assert json.loads(line) == value
    assert "plain" in line
    assert "ü" in line


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (0, "1970-01-01 00:00:00.000Z"),
        (1_800_000_000_123, "2027-01-15 08:00:00.123Z"),
        (-1, "1969-12-31 23:59:59.999Z"),
        (2**62, "4611686018427387904ms"),
    ],
)
def test_times_are_printed_in_utc(at_ms: int, expected: str) -> None:
    """The precision is milliseconds, for any number."""
    assert format_timestamp(at_ms) == expected


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
    assert format_duration(length_ms) == text


def test_a_number_agrees_with_its_noun() -> None:
    """The noun is singular or plural."""
    assert count_of(1, "group") == "1 group"
    assert count_of(2_000, "group") == "2,000 groups"
    assert count_of(2, "event is", "events are") == "2 events are"


@pytest.mark.parametrize(("at_ms", "year"), [(-1, 1970), (1_800_000_000_000, 2027), (10**30, 9999)])
def test_every_number_has_a_date(at_ms: int, year: int) -> None:
    """Lines of events can contain any number."""
    assert date_time(at_ms).year == year
