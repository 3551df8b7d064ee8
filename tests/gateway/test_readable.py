"""What anybody may have written is safe to print."""

import json

import pytest

from gateway.readable import escaped, moment, shown


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
def test_only_what_is_plain_is_shown_as_it_is(value: object, line: str) -> None:
    """Everything else is JSON, in one line and without a control character."""
    assert shown(value) == line


@pytest.mark.parametrize(
    "unseen",
    [*"\x1b\x07\x7f\x9b\u061c\u200b\u2028\u202e\u2066\ufeff"],
    ids=lambda each: hex(ord(each)),
)
def test_json_with_what_nobody_can_see_is_escaped_and_stays_the_same(unseen: str) -> None:
    """Control characters of both sets, marks of direction, separators of lines."""
    value = {"group_id": f"a{unseen}b", "ü": "plain"}
    line = escaped(json.dumps(value, ensure_ascii=False))
    assert unseen not in line
    assert json.loads(line) == value
    assert "plain" in line
    assert "ü" in line


@pytest.mark.parametrize(
    ("at_ms", "said"),
    [
        (0, "1970-01-01 00:00:00.000Z"),
        (1_800_000_000_123, "2027-01-15 08:00:00.123Z"),
        (-1, "1969-12-31 23:59:59.999Z"),
        (2**62, "4611686018427387904ms"),
    ],
)
def test_a_moment_is_told_in_utc(at_ms: int, said: str) -> None:
    """Down to the millisecond, and whatever the number is."""
    assert moment(at_ms) == said
