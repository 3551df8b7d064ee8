"""Formats values for people: numbers, durations, dates, and untrusted values as one line.

Clients choose their own ids and group ids: they must not move the cursor, hide a name or reverse
the direction of a line. Everything that reaches a terminal goes through `escape`.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffc\ufff0-\ufff8\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
"""Control characters, direction marks, and characters without a width."""

_PLAIN = re.compile(r"[\w./:@+>-]+", re.ASCII)


def escape(line: str) -> str:
    """One line with JSON escapes in place of characters that control the terminal or are invisible.
    JSON stays equivalent JSON."""
    return UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f"), line)


def show_value(value: Any) -> str:
    """A plain string unchanged; any other value as escaped JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return escape(json.dumps(value, separators=(",", ":")))


def format_timestamp(at_ms: int) -> str:
    """A time in milliseconds since 1970 as UTC; the number itself if it is outside the calendar."""
    try:
        at = datetime.fromtimestamp(at_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms}ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}Z"


SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT_MS_MAX = 253_402_300_799_999
"""The last moment of the year 9999."""


def date_time(at_ms: int) -> datetime:
    """The moment in UTC, moved into the calendar's range."""
    return _EPOCH + timedelta(milliseconds=min(max(at_ms, 0), _MOMENT_MS_MAX))


def format_duration(length_ms: float) -> str:
    """The duration in its two largest units."""
    if length_ms < SECOND_MS:
        return f"{length_ms:.0f} ms"
    if length_ms < MINUTE_MS:
        return f"{length_ms / SECOND_MS:.1f} s"
    for unit_ms, unit, rest_ms, rest in (
        (DAY_MS, "d", HOUR_MS, "h"),
        (HOUR_MS, "h", MINUTE_MS, "min"),
        (MINUTE_MS, "min", SECOND_MS, "s"),
    ):
        if length_ms >= unit_ms:
            whole, left = divmod(length_ms, unit_ms)
            return f"{number(whole)} {unit} {left // rest_ms:.0f} {rest}"
    raise AssertionError(length_ms)


def number(value: float) -> str:
    """Thousands are separated; fractions have up to three significant digits."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 0.001:
        return "<0.001"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") or "0"


def count_of(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def partition_seconds(amount_s: float) -> str:
    """Unowned time, summed over partitions."""
    return f"{number(amount_s)} partition-seconds"


def visible(text: str, length: int) -> str:
    """A text from events, cut in its middle, with invisible characters as escapes: they could hide
    a name or reverse the direction of a line."""
    if len(text) > length:
        half = (length - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return UNSEEN.sub(lambda character: f"\\u{ord(character[0]):04x}", text)
