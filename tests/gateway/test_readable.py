"""External text is safe to print."""

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
def test_only_plain_text_is_printed_unchanged(value: object, line: str) -> None:
    """All other text is JSON on one line, without control characters."""
    assert shown(value) == line


@pytest.mark.parametrize(
    "unseen",
    [*"\x1b\x07\x7f\x9b\u061c\u200b\u2028\u202e\u2066\ufeff"],
    ids=lambda each: hex(ord(each)),
)
def test_invisible_characters_in_json_are_escaped(unseen: str) -> None:
    """These are control characters of both sets, direction marks, and line separators. The JSON
    value is unchanged."""
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
def test_times_are_printed_in_utc(at_ms: int, said: str) -> None:
    """The precision is milliseconds, for any number."""
    assert moment(at_ms) == said
