"""The engine's clock: wall-clock milliseconds that never go backwards."""

import time

import trio


class Clock:
    """Reads the wall clock once, and follows Trio's monotonic clock from then on.

    A step of the wall clock therefore neither expires sessions nor prolongs them. A clock is valid
    inside the Trio run that made it.
    """

    def __init__(self) -> None:
        self._time_s = trio.lowlevel.current_clock().current_time  # at half the calls of Trio's own
        self._ahead_ms = round((time.time() - self._time_s()) * 1000)

    def now_ms(self) -> int:
        """Wall-clock milliseconds, rounded so that a sleep of `seconds_until` always suffices."""
        return round(self._time_s() * 1000) + self._ahead_ms

    def seconds_until(self, at_ms: int | None) -> float:
        """Seconds until `at_ms`, infinite if it is None."""
        if at_ms is None:
            return float("inf")
        return max(0.0, (at_ms - self._ahead_ms) / 1000 - self._time_s())
