"""Numbers, durations and dates for people."""

from datetime import UTC, datetime, timedelta

from gateway.readable import UNSEEN

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


def duration(length_ms: float) -> str:
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
