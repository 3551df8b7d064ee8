"""The socket between a process of a fleet and its parent, as the process sees it.

The process gives signs of life and obeys. It ends when its parent has: signals to the whole process
group, as from a terminal or a supervisor, reach the parent, which tells each process once.
"""

import math
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog
import trio

from gateway.fleet.supervision import TICK_S
from gateway.fleet.words import (
    WORD_BYTES_MAX,
    AskDrain,
    AskRestart,
    Beat,
    Drain,
    GaveUp,
    LogClaimed,
    LogLost,
    Lose,
    NotOpened,
    Opened,
    OwnerTable,
    Reload,
    Serving,
    StopAccepting,
    Take,
    Word,
    decode,
    encode,
)

log = structlog.get_logger()

STOPPED_PARENT_S = 10.0
"""How long the last word of a process waits for a parent that reads nothing."""


class ParentLink:
    """A process's end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.leaving = trio.Event()
        """Set when new clients are to be left to the other processes."""
        self._orders_in, self.orders = trio.open_memory_channel[OwnerTable | Take | Lose](math.inf)
        """What the process has to do with shards, in the order in which the parent has said it."""

    async def beat(self) -> None:
        """Give signs of life until cancelled, as long as the event loop runs."""
        while True:
            self._say(Beat())
            await trio.sleep(TICK_S)

    def say_serving(self) -> None:
        """Say that clients are served."""
        self._say(Serving())

    async def say_of_shard(self, word: GaveUp | Opened | NotOpened) -> None:
        """Say what has become of a shard. Waits for a parent that reads nothing."""
        packet = encode(word)
        while True:
            try:
                self._socket.send(packet)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)
            except OSError:  # of a dead parent `obey` learns
                return
            else:
                return

    def say_log_claimed(self, log_id: str, run_id: int) -> None:
        """Say that the state log in the cluster is this fleet's."""
        self._say(LogClaimed(log_id, run_id))

    def say_owners(self, owners: Sequence[int]) -> None:
        """Say which process of this machine has each shard, or NO_SLOT. Only where the parent does
        not share them out."""
        self._say(OwnerTable(tuple(owners)))

    def say_log_lost(self, reason: str) -> None:
        """Say that the state log, or the name in the fleet, is another gateway's, once Trio has
        ended. Waits for a stopped parent, which would take the end for a crash and start another
        process."""
        self._socket.settimeout(STOPPED_PARENT_S)
        self._say(LogLost(reason))

    def ask_drain(self) -> None:
        """Have all processes drained, this one as well."""
        self._say(AskDrain())

    def ask_restart(self, slots: Sequence[int]) -> None:
        """Have processes restarted, one after another."""
        self._say(AskRestart(tuple(slots)))

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
                packet = self._socket.recv(WORD_BYTES_MAX)
            except BlockingIOError:
                continue
            except OSError:
                packet = b""
            match decode(packet) if packet else Drain():
                case Reload():
                    reload()
                case StopAccepting():
                    self.leaving.set()
                case (OwnerTable() | Take()) as order:
                    self._orders_in.send_nowait(order)
                case _:
                    log.info("stop_asked", by="parent" if packet else "the end of the parent")
                    if stop.is_set() or not started.is_set():
                        everything.cancel()
                    stop.set()
            if not packet:
                return

    def _say(self, word: Word) -> None:
        with suppress(OSError):  # a stopped parent reads nothing, and of a dead one `obey` learns
            self._socket.send(encode(word))
