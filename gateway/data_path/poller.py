"""One task that waits for all idle connections, and handles what arrives without waking theirs.

Each socket is registered once, edge-triggered. Trio's own `wait_readable` registers anew for every
wait and switches tasks for every frame, which costs more than relaying a small frame.
"""

import select
from collections.abc import Callable

import trio

from gateway.transport.sockets import Transport

EVENTS_PER_TURN = 64
"""Other tasks run after two turns at the latest."""

HANG_UP = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
"""The peer sends nothing after what has arrived."""

_INTEREST = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET

OnReady = Callable[[int], None]
"""Called with the events of a socket. Must neither block nor raise."""


class Poller:
    """Calls the handler of each watched socket when bytes arrive."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, OnReady] = {}
        self._again: list[int] = []
        self.turn_s = trio.current_time()
        """When the latest turn began. Cheaper than the time itself."""

    def watch(self, sock: Transport, on_ready: OnReady) -> None:
        """Call `on_ready` whenever more bytes have arrived, until `forget`."""
        fd = sock.fileno()
        self._handlers[fd] = on_ready
        self._epoll.register(fd, _INTEREST)

    def forget(self, sock: Transport) -> None:
        """Stop watching. Call this before closing the socket."""
        fd = sock.fileno()
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def again(self, sock: Transport) -> None:
        """Within a handler: call it once more after those of other sockets. An edge is reported
        only once."""
        self._again.append(sock.fileno())

    def begin_turn(self) -> None:
        """Note the time. Call this before doing a handler's work in another task."""
        self.turn_s = trio.current_time()

    async def run(self) -> None:
        """Call handlers until cancelled."""
        while True:
            # Most turns leave nothing for a second one, and a checkpoint costs more than a look.
            if self._turn() and self._turn():
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._epoll.fileno())

    def _turn(self) -> bool:
        """Call the handlers of sockets with events. False if there are none."""
        again, self._again = self._again, []
        events = self._epoll.poll(0, EVENTS_PER_TURN)
        if not events and not again:
            return False
        self.begin_turn()
        handlers = self._handlers
        for fd, what in events:
            if (on_ready := handlers.get(fd)) is not None:
                on_ready(what)
        for fd in again:
            if (on_ready := handlers.get(fd)) is not None:
                on_ready(0)
        return True

    def close(self) -> None:
        """Close, once no socket is watched."""
        self._epoll.close()
