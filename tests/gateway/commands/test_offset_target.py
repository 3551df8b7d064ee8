"""Where a reset puts offsets."""

import pytest

from gateway.commands.offset_target import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(timestamp_ms=-2)),
        ("latest", Target(timestamp_ms=-1)),
        ("12", Target(offset=12)),
        ("+3", Target(shift=3)),
        ("-3", Target(shift=-3)),
        ("1970-01-01T00:01:00Z", Target(timestamp_ms=60_000)),
        ("1970-01-01T01:01:00+01:00", Target(timestamp_ms=60_000)),
        ("1970-01-01 00:01", Target(timestamp_ms=60_000)),
    ],
)
def test_a_target_is_an_end_an_offset_a_distance_or_a_time(text: str, target: Target) -> None:
    """A time without a zone is UTC, as everything that groupferry prints."""
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "soon", "+", "1.5", "3am"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid isoformat string"):
        parse_target(text)
