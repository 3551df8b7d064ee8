"""Whether the state log takes what it is given, as far as the groups have seen.

A group that nobody is in is taken in the cluster before its first member is written. While the log
refuses everything, as with a full disk, that is for nothing. Must not know what is written.
"""

import math

import trio

from gateway.state_log.log import StateLogError

TRY_AGAIN_S = 1.0
"""How often a group may be begun all the same: its write tells whether the log is well again."""


class LogHealth:
    """Told of each write; asked before a group is begun."""

    def __init__(self) -> None:
        self._failure: StateLogError | None = None
        self._next_try_s = -math.inf

    def note(self, failure: StateLogError | None) -> None:
        """How a write ended."""
        self._failure = failure
        self._next_try_s = trio.current_time() + TRY_AGAIN_S

    def check(self) -> None:
        """Raises StateLogError if the last write failed and it is too soon to try again."""
        if self._failure is None:
            return
        if trio.current_time() < self._next_try_s:
            raise StateLogError(str(self._failure))
        self._next_try_s = trio.current_time() + TRY_AGAIN_S
