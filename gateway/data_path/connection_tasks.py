"""The tasks of client connections. A connection has tasks while it has work, and the ones that
worked last keep theirs for a while."""

import contextvars
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import trio

KEPT_MAX = 32
"""Idle connections that keep their tasks. A task takes more memory than everything else of an idle
connection, but starting one takes longer than answering a request, and requests often come in
bursts."""


class Served(Protocol):
    """A connection."""

    log_context: contextvars.Context

    @property
    def has_ended(self) -> bool:
        """Whether it is closed."""

    async def serve(self) -> None:
        """Work until the end, or until `go_idle`."""

    def go_idle(self) -> bool:
        """Let `serve` return if it has nothing to do. False if it has."""


_C = TypeVar("_C", bound=Served)


class ConnectionTasks(Generic[_C]):
    """The tasks of all client connections."""

    def __init__(self, nursery: trio.Nursery, on_end: Callable[[_C], None]) -> None:
        self._nursery = nursery
        self._on_end = on_end
        self._resting: dict[_C, None] = {}
        """The connections that keep their tasks, those that have worked last at the end."""

    def start(self, connection: _C) -> None:
        """Start a task for a connection that has none and has work."""
        if self._nursery.cancel_scope.cancel_called:
            return  # closing a connection may wake another one, which is about to be closed too
        context = connection.log_context.copy()  # the task that calls may be in the original
        context.run(self._nursery.start_soon, self._serve, connection)

    def record_rest(self, connection: _C) -> None:
        """Count the connection as idle. The one that has been idle longest loses its tasks if too
        many keep theirs."""
        self._resting.pop(connection, None)
        self._resting[connection] = None
        if len(self._resting) > KEPT_MAX:
            first = next(iter(self._resting))
            del self._resting[first]
            if not first.go_idle():
                self._resting[first] = None

    def record_end(self, connection: _C) -> None:
        """Forget a connection that has ended."""
        self._resting.pop(connection, None)
        self._on_end(connection)

    async def _serve(self, connection: _C) -> None:
        try:
            await connection.serve()
        finally:
            if connection.has_ended:
                self.record_end(connection)
