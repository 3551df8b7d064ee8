"""The lease: how long a gateway may answer after it last confirmed that it owns the log.

The log fences writes, but most answers write nothing. Without a lease, a paused process could
confirm members that a new owner has timed out.
"""

import time

LEASE_MS = 2_000
"""The length of a lease, unless the settings say otherwise. It is far shorter than the shortest
session: a new owner restarts every session at full length."""
LEASE_MS_MIN = 1_000
"""The log has to be written several times in it."""
LEASE_MS_MAX = 5_000
"""Below the session in the group of a fleet: others take the shards of a silent gateway then."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that runs while the machine sleeps, where there is one."""


def now_ms() -> int:
    """Milliseconds of a clock that is never set, and runs during pauses of the process."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


class Lease:
    """A lease that expires unless it is renewed."""

    def __init__(self, length_ms: int) -> None:
        self.length_ms = length_ms
        self._until_ms = 0

    def renew(self, asked_ms: int) -> None:
        """A request sent at `asked_ms` (`now_ms`) confirmed that the log is ours."""
        self._until_ms = max(self._until_ms, asked_ms + self.length_ms)

    def end(self) -> None:
        """End the lease: another gateway may own the log."""
        self._until_ms = 0

    @property
    def is_running(self) -> bool:
        """Check this just before an answer leaves."""
        return now_ms() < self._until_ms
