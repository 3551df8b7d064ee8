"""The lifetime of one client, and the work that ends with it (DEV D89).

TCP does not tell a client that has gone from one that only sends nothing more. Kafka clients do not
do the latter, so the end of the stream counts as the end of the client.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from gateway.data_path.config import Limits


class ClientLifetime:
    """Cancels the work in progress for a client that closes its side of the connection."""

    __slots__ = ("_limits", "_lingers", "_scope", "has_ended")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._scope: trio.CancelScope | None = None  # while there is work
        self._lingers = False
        self.has_ended = False
        """Whether the client has closed its side. Bytes from before may still be unread."""

    def end(self) -> None:
        """Mark that the client has closed its side."""
        if not self.has_ended:
            self.has_ended = True
            self._end_work()

    @contextmanager
    def limit_work(self, *, lingers: bool) -> Iterator[trio.CancelScope]:
        """Cancel the block when the client closes its side. With `lingers` that happens only
        `linger_timeout_s` later, because the work counts without the client."""
        with trio.CancelScope() as scope:
            self._scope = scope
            self._lingers = lingers
            if self.has_ended:
                self._end_work()
            try:
                yield scope
            finally:
                self._scope = None

    def stop_lingering(self) -> None:
        """Within `limit_work`: the work turns out not to count without the client."""
        self._lingers = False
        if self.has_ended:
            self._end_work()

    def _end_work(self) -> None:
        if self._scope is None:
            return
        if self._lingers:
            self._scope.deadline = trio.current_time() + self._limits.linger_timeout_s
        else:
            self._scope.cancel()
