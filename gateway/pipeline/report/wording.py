"""Numbers, durations and dates for people."""

from datetime import UTC, datetime, timedelta

from gateway.readable import moment

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


def beginning(from_ms: int | None) -> str:
    """The start of something; null means that it had begun before the first event."""
    return "before the first event" if from_ms is None else moment(from_ms)


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


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def partition_seconds(amount_s: float) -> str:
    """Unowned time, summed over partitions."""
    return f"{number(amount_s)} partition-seconds"
