"""The end of a client's stream, and the work that ends with it (DEV D89).

TCP does not tell a client that has gone from one that only sends nothing more. Kafka clients do not
do the latter, so the end of the stream counts as the end of the client.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from gateway.data_path.config import Limits


class Disconnect:
    """Notices that one client has closed its side, and cancels the work in progress for it."""

    __slots__ = ("_limits", "_lingers", "_scope", "has_come")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._scope: trio.CancelScope | None = None  # while there is work
        self._lingers = False
        self.has_come = False
        """Whether the client has closed its side. Bytes from before may still be unread."""

    def come(self) -> None:
        """Note that the client has closed its side."""
        if not self.has_come:
            self.has_come = True
            self._end_work()

    @contextmanager
    def ends(self, *, lingers: bool) -> Iterator[trio.CancelScope]:
        """Cancel the block when the client closes its side. With `lingers` that happens only
        `linger_timeout_s` later, because the work counts without the client."""
        with trio.CancelScope() as scope:
            self._scope, self._lingers = scope, lingers
            if self.has_come:
                self._end_work()
            try:
                yield scope
            finally:
                self._scope = None

    def stop_lingering(self) -> None:
        """Within `ends`: the work turns out not to count without the client."""
        self._lingers = False
        if self.has_come:
            self._end_work()

    def _end_work(self) -> None:
        if self._scope is None:
            return
        if self._lingers:
            self._scope.deadline = trio.current_time() + self._limits.linger_timeout_s
        else:
            self._scope.cancel()
