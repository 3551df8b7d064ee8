"""The lease: how long a gateway may answer after it last confirmed that it owns the log.

The log fences writes, but most answers write nothing. Without a lease, a paused process could
confirm members that a new owner has timed out.
"""

import time

LEASE_MS = 2_000
"""Far shorter than the shortest session: a new owner restarts every session at full length."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, where there is such a clock."""


def now_ms() -> int:
    """Milliseconds that no setting of the clock and no pause of the process holds up."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


class Lease:
    """Runs out by itself."""

    def __init__(self, length_ms: int = LEASE_MS) -> None:
        self._length_ms = length_ms
        self._until_ms = 0

    def renew(self, asked_ms: int) -> None:
        """The log was found to be ours by a question that was sent at that time (`now_ms`)."""
        self._until_ms = max(self._until_ms, asked_ms + self._length_ms)

    def end(self) -> None:
        """Somebody else has it, or nobody knows."""
        self._until_ms = 0

    @property
    def is_running(self) -> bool:
        """To be asked just before an answer leaves."""
        return now_ms() < self._until_ms
