"""The engine's clock: wall-clock milliseconds that never go backwards."""

import time

import trio


class Clock:
    """Set by the wall once, driven by Trio's monotonic clock from then on.

    A step of the wall clock can thus neither expire sessions nor keep them for ever. Made and used
    inside one Trio run.
    """

    def __init__(self) -> None:
        self._ahead_ms = round((time.time() - trio.current_time()) * 1000)

    def now_ms(self) -> int:
        """Wall-clock milliseconds. Rounded, so that after `seconds_until` the time has come."""
        return round(trio.current_time() * 1000) + self._ahead_ms

    def seconds_until(self, at_ms: int | None) -> float:
        """How long to sleep until `at_ms`; for ever if there is no such time."""
        if at_ms is None:
            return float("inf")
        return max(0.0, (at_ms - self._ahead_ms) / 1000 - trio.current_time())
