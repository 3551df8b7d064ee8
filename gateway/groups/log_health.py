"""Remembers whether the latest write to the state log succeeded.

The anchor joins a group in the cluster before the first member's records are written. While the log
rejects everything, as on a full disk, that join would be useless.
"""

import math

import trio

from gateway.state_log.log import StateLogError

TRY_AGAIN_S = 1.0
"""How often a group may start despite the failure; its write shows whether the log has
recovered."""


class LogHealth:
    """Learns of each write, and is checked before a group starts."""

    def __init__(self) -> None:
        self._failure: StateLogError | None = None
        self._next_try_s = -math.inf

    def note(self, failure: StateLogError | None) -> None:
        """Note the outcome of a write."""
        self._failure = failure
        self._next_try_s = trio.current_time() + TRY_AGAIN_S

    def check(self) -> None:
        """Raises StateLogError if the latest write failed and no new attempt is due."""
        if self._failure is None:
            return
        if trio.current_time() < self._next_try_s:
            raise StateLogError(str(self._failure))
        self._next_try_s = trio.current_time() + TRY_AGAIN_S
