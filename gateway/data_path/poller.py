"""One task that waits for all idle connections, and handles what arrives without waking theirs.

Each socket is registered once, edge-triggered. Trio's own `wait_readable` registers it again for
every wait and switches tasks for every frame, which costs more than relaying a small frame.
"""

import select
from collections.abc import Callable

import trio

from gateway.transport.sockets import Transport

EVENTS_AT_ONCE = 64
"""A turn ends once it has handled more events, so after twice as many at the latest."""

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
        self._turn_ends = False
        self._time_s = trio.lowlevel.current_clock().current_time  # at half the calls of Trio's own
        self.turn_s = self._time_s()
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

    def end_turn(self) -> None:
        """Within a handler: let other tasks run after those that are ready now, because one was
        woken."""
        self._turn_ends = True

    def begin_turn(self) -> None:
        """Note the time. Call this before doing a handler's work in another task."""
        self.turn_s = self._time_s()

    async def run(self) -> None:
        """Call handlers until cancelled."""
        while True:
            if self._turn():
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._epoll.fileno())

    def _turn(self) -> bool:
        """Call the handlers of sockets with events. False once no socket has any, True if others
        have to run first."""
        self.begin_turn()
        self._turn_ends = False
        handlers, handled = self._handlers, 0
        while handled <= EVENTS_AT_ONCE:
            events = self._epoll.poll(0, EVENTS_AT_ONCE)
            if self._again:
                # Once each, though more may have arrived since.
                arrived = dict(events)
                events += [(fd, 0) for fd in self._again if fd not in arrived]
                self._again.clear()
            if not events:
                return False
            for fd, what in events:
                if (on_ready := handlers.get(fd)) is not None:
                    on_ready(what)
            if self._again or self._turn_ends:
                break
            handled += len(events)  # polling once more costs less than a checkpoint
        return True

    def close(self) -> None:
        """Close, once no socket is watched."""
        self._epoll.close()
