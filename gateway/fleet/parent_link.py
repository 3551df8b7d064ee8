"""The socket between a process of a fleet and its parent, as the process sees it.

The process gives signs of life and obeys. It ends when its parent has: signals to the whole process
group, as from a terminal or a supervisor, reach the parent, which tells each process once.
"""

import socket
from collections.abc import Callable
from contextlib import suppress

import structlog
import trio

from gateway.fleet.supervision import TICK_S

log = structlog.get_logger()

BEAT, SERVING, DRAINING = b".", b"!", b"d"
"""What a process says."""
DRAIN, RELOAD = b"d", b"r"
"""What its parent says."""


class ParentLink:
    """A process's end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock

    async def beat(self) -> None:
        """Give signs of life until cancelled, as long as the event loop runs."""
        while True:
            self._say(BEAT)
            await trio.sleep(TICK_S)

    def say_serving(self) -> None:
        """Say that clients are served."""
        self._say(SERVING)

    async def report_drain(self, stop: trio.Event) -> None:
        """Say that the process drains, as soon as it does."""
        await stop.wait()
        self._say(DRAINING)

    async def obey(
        self,
        stop: trio.Event,
        started: trio.Event,
        everything: trio.CancelScope,
        reload: Callable[[], None],
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Drain when the parent says so, or has ended; told again, or before the start, end
        without."""
        task_status.started()
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                received = self._socket.recv(64)
            except BlockingIOError:
                continue
            except OSError:
                received = b""
            for order in (bytes([byte]) for byte in received or DRAIN):
                if order == RELOAD:
                    reload()
                    continue
                log.info("stop_asked", by="parent" if received else "the end of the parent")
                if stop.is_set() or not started.is_set():
                    everything.cancel()
                stop.set()
            if not received:
                return

    def _say(self, word: bytes) -> None:
        with suppress(OSError):  # a stopped parent reads nothing, and of a dead one `obey` learns
            self._socket.send(word)
