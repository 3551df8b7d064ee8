"""Frames on non-blocking connections: receive them, relay them, hold them or drop them.

The speed of the relay depends on this narrow interface. It knows about Kafka only that a frame
begins with its size. The caller checks sizes against its limits.

A source borrows a buffer to receive, and keeps it only until what has arrived is relayed or waits
for a task: a bytearray is resident immediately, and most connections are idle most of the time.
"""

import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any

import trio

from gateway.data_path.backpressure import BackpressureTimes, Receiver
from gateway.data_path.broker_timeouts import BrokerTimeouts
from gateway.data_path.held_answers import HeldAnswers
from gateway.data_path.poller import HANG_UP, Poller
from gateway.data_path.splice import PipePool, StreamEnded, splice_exactly
from gateway.transport.sockets import Sink, Transport, send_all
from gateway.transport.tls import TlsSocket

BUFFER_BYTES = 128 * 1024
"""The size of a pooled buffer, and so the longest head that a caller can look at."""

SPARE_BUFFERS = 32
"""Buffers kept for later sources. More exist only while slow peers hold them."""

SPLICE_FROM_BYTES = 64 * 1024
"""From this many remaining bytes on, splicing costs less CPU than copying. TLS is always copied."""

RECEIVES_PER_TURN = 16
"""Receives in a row before others run."""

_TURN = range(RECEIVES_PER_TURN)
SIZE_BYTES = 4
_INT32 = struct.Struct(">i")
_C_INT = struct.Struct("i")
_NOTHING = memoryview(b"")

Consume = Callable[[], bool]
"""Relays what has arrived, as far as that is possible immediately. False if it leaves something to
the task of the connection."""

OnWork = Callable[[], None]
"""Called once when there is something that a task has to do."""

OnHangUp = Callable[[], None]
"""Called when the peer has closed its side, even while no task reads."""


def new_buffer() -> memoryview:
    """A buffer, lent to one source after another."""
    return memoryview(bytearray(BUFFER_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResources:
    """What the sources of all connections share."""

    poller: Poller = field(default_factory=Poller)
    spare_buffers: deque[memoryview] = field(default_factory=lambda: deque(maxlen=SPARE_BUFFERS))
    """The buffers that no source has borrowed."""
    pipes: PipePool = field(default_factory=PipePool)
    broker_timeouts: BrokerTimeouts = field(default_factory=BrokerTimeouts)
    pressure: BackpressureTimes = field(default_factory=BackpressureTimes)
    answers: HeldAnswers = field(default_factory=HeldAnswers)

    def close(self) -> None:
        """Close, after all sources."""
        self.pipes.close()
        self.poller.close()


class Arrival(Enum):
    """What a turn of receiving ended with, and what a task was woken for."""

    MORE = auto()
    """The limit of a turn. More bytes may have arrived."""
    WORK = auto()
    """Bytes that the task has to look at."""
    END = auto()
    """The end of the stream."""
    IDLE = auto()
    """Nothing: the task shall end until there is something to do."""


class FrameSource:
    """The frames that arrive at one socket, most of which are relayed to one other socket.

    The caller looks at the head of the next frame (`ready`, `unpack`), may change it in place
    (`patch`), and then relays the frame (`relay`) or takes it out (`hold`, `drop`). Relayed bytes
    wait as one *run* in the buffer until they are sent; the caller sends them before `fill`, `hold`
    and `drop`. If a relayed frame is incomplete, its *rest* joins the run as it arrives.

    A task that has nothing to do waits in `arrivals`, where the poller's task relays for it. It may
    also end, and let the source `sleep`: then the poller's task relays until there is work for a
    new task.
    """

    __slots__ = (
        "_consume",
        "_drained",
        "_end",
        "_hung_up",
        "_on_hang_up",
        "_poller",
        "_receiver",
        "_receives",
        "_resources",
        "_run",
        "_sock",
        "_spare",
        "_start",
        "_view",
        "_waiting",
        "_woken_by",
        "has_ended",
        "received",
        "rest",
        "waits_since_s",
    )

    def __init__(
        self,
        sock: Transport,
        resources: StreamResources,
        receiver: Receiver,
        on_hang_up: OnHangUp | None = None,
    ) -> None:
        """`receiver`: who gets what is relayed."""
        self._sock = sock
        self._receiver: Receiver = receiver
        self._resources = resources
        self._poller = resources.poller
        self._spare = resources.spare_buffers
        self._view = _NOTHING  # a borrowed buffer, or just the unread bytes
        self._run = self._start = self._end = 0  # run: [_run, _start); unread: [_start, _end)
        self._drained = False  # the last receive was short, so another would find nothing
        self._hung_up = False  # the end of the stream has arrived behind the bytes
        self._on_hang_up = on_hang_up
        self._receives = 0
        self._consume: Consume
        self._waiting: trio.lowlevel.Task | OnWork | None = None  # a task in `arrivals`
        self._woken_by: Arrival | Exception = Arrival.WORK
        self.has_ended = False
        """Whether the peer has closed its side, and all that it had sent has been received."""
        self.received = 0
        """All bytes that have arrived."""
        self.rest = 0
        """The missing bytes of a frame whose beginning has been relayed."""
        self.waits_since_s: float | None = None
        """Since when the source has been waiting for bytes, None if it is not."""
        self._poller.watch(sock, self._on_ready)

    @property
    def position(self) -> int:
        """How many bytes of the stream are before the next frame, or its unread rest."""
        return self.received - (self._end - self._start)

    def is_empty(self) -> bool:
        """Whether no byte of the next frame has arrived, and none of this one is missing."""
        return self._end == self._start and not self.rest

    @property
    def is_at_end(self) -> bool:
        """Whether the end of the stream has woken its reader, and every frame before is whole."""
        return self._woken_by is Arrival.END and self.is_empty()

    @property
    def has_run(self) -> bool:
        """Whether relayed bytes wait to be sent."""
        return self._run < self._start

    @property
    def rest_is_long(self) -> bool:
        """Whether `catch_up` relays the rest more cheaply than `arrivals`."""
        return self.rest >= SPLICE_FROM_BYTES and isinstance(self._sock, socket.socket)

    def ready(self, count: int) -> bool:
        """Whether the first `count` bytes of the next frame have arrived."""
        return self._end - self._start >= count

    def count_arrived_bytes(self) -> int:
        """All bytes that have arrived, including those that have not been received yet. With TLS,
        the latter are counted as they were encrypted."""
        waiting = bytearray(_C_INT.size)
        fcntl.ioctl(self._sock.fileno(), termios.FIONREAD, waiting)
        (count,) = _C_INT.unpack(waiting)
        if isinstance(self._sock, TlsSocket) and self._sock.has_more:
            count += 1
        return self.received + int(count)

    def is_alone(self, size: int) -> bool:
        """Whether the whole next frame, and nothing else, has arrived and waits."""
        return self._run == self._start and self._end - self._start == SIZE_BYTES + size

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The first fields of the next frame; they must be `ready`."""
        return layout.unpack_from(self._view, self._start)

    def next_start(self, layout: struct.Struct) -> tuple[Any, ...] | None:
        """The fields that `unpack` gives; None until they and the whole frame before are here."""
        start = self._start
        if self._end - start < layout.size or self.rest:
            return None
        return layout.unpack_from(self._view, start)

    def head(self) -> memoryview:
        """The unread bytes that have arrived. Valid until the next call."""
        return self._view[self._start : self._end]

    def patch(self, offset: int, value: int) -> None:
        """Overwrite the int32 at this offset in the next frame."""
        _INT32.pack_into(self._view, self._start + offset, value)

    def relay(self, size: int) -> None:
        """Let the next frame join the run: what is here now, and the rest as it arrives."""
        end = self._start + SIZE_BYTES + size
        if end <= self._end:  # nearly always
            self._start = end
        else:
            self._start, self.rest = self._end, end - self._end

    def relay_bytes(self, count: int) -> None:
        """Let the first bytes of the next frame join the run. The caller relays the others."""
        self.relay(count - SIZE_BYTES)

    def send_run(self, sink: Sink) -> bool:
        """Send as much of the run as `sink` takes immediately. Returns whether that was all."""
        run, end = self._run, self._start
        while run < end:
            try:
                self._run = run = run + sink.send(self._view[run:end])
            except BlockingIOError:
                return False
        return True

    def take_out(self, size: int) -> bytes:
        """The whole next frame without its size. It must be `ready`, and the run sent."""
        start = self._start + SIZE_BYTES
        self._run = self._start = start + size
        return bytes(self._view[start : self._start])

    async def arrivals(self, consume: Consume) -> Arrival:
        """Let `consume` relay what arrives, until it leaves WORK to this task. END at the end of
        the stream, DOZE after `go_idle`.

        `consume` runs in the poller's task, after each receive. Its errors are raised here.
        """
        self._consume = consume
        while True:
            arrival = self._receive_and_consume()
            if arrival is None:
                return await self._next_work()
            if arrival is Arrival.MORE or self._receives >= RECEIVES_PER_TURN:
                self._receives = 0
                await trio.lowlevel.checkpoint()
            if arrival is not Arrival.MORE:
                return arrival

    @property
    def is_parked(self) -> bool:
        """Whether the task has nothing to do: it waits in `arrivals`, or the source sleeps."""
        return self._waiting is not None

    def wake(self) -> None:
        """Let `arrivals` return if a task waits in it, or a task begin if the source sleeps."""
        if self._waiting is not None:
            self._wake(Arrival.WORK)

    def go_idle(self) -> None:
        """Let `arrivals`, in which a task waits, return DOZE. The wait for bytes continues."""
        since_s = self.waits_since_s
        self._wake(Arrival.IDLE)
        self.waits_since_s = since_s

    def sleep(self, consume: Consume, on_work: OnWork) -> None:
        """Relay what arrives, as `arrivals` does, but without a task. `on_work` may be called at
        once."""
        self._poller.begin_turn()
        self._consume, self._waiting = consume, on_work
        if self.waits_since_s is None:
            self.waits_since_s = self._poller.turn_s
        if self._look():
            self._wake(Arrival.WORK)  # the poller may be waiting for an event

    def end_sleep(self) -> None:
        """A task takes over, which has to `raise_error` first."""
        self._waiting = self.waits_since_s = None

    def raise_error(self) -> None:
        """Raise what `consume` has raised, if that has woken the task."""
        if isinstance(self._woken_by, Exception):
            error, self._woken_by = self._woken_by, Arrival.WORK
            try:
                raise error
            finally:
                del error  # its traceback leads here

    async def fill(self) -> bool:
        """Receive more bytes. False at the end of the stream. The run must have been sent."""
        assert self._run == self._start, "a run waits to be sent"
        if self._drained:
            await self._wait()
        while (count := self._receive()) is None:
            await self._wait()
        self._receives += 1
        if self._receives >= RECEIVES_PER_TURN:
            self._receives = 0
            await trio.lowlevel.checkpoint()
        return count > 0

    async def flush(self, sink: Sink | None) -> None:
        """Send the run. `sink` may be None only if the run is empty."""
        if self._run == self._start:
            return
        assert sink is not None
        if not self.send_run(sink):
            with self._resources.pressure.waits(self._receiver):
                await send_all(sink, self._view[self._run : self._start])
            self._run = self._start

    async def catch_up(self, sink: Sink) -> None:
        """Send the run, and the rest of the frame if that is long, without holding it whole.

        Raises StreamEnded if either end goes away within the frame; the sink then has a part of it.
        """
        await self.flush(sink)
        if not self.rest_is_long:
            return
        if (
            isinstance(self._sock, socket.socket)
            and isinstance(sink, socket.socket)
            and (pipe := self._resources.pipes.take())
        ):
            self._give_back()
            self._drained = False
            try:
                with self._resources.pipes.lend(pipe):
                    await splice_exactly(
                        self._sock,
                        sink,
                        self.rest,
                        pipe,
                        wait=self._wait,
                        held_up=partial(self._resources.pressure.waits, self._receiver),
                    )
            except OSError:
                raise StreamEnded from None  # the pipe may hold bytes of the frame
            self.received += self.rest
            self.rest = 0
        while self.rest:
            await self._fill_or_fail()
            await self.flush(sink)

    async def hold(self, size: int, note: Callable[[int], None] | None = None) -> bytes:
        """The whole next frame without its size. The caller has checked `size` against a limit.

        Memory grows with the bytes that arrive, not with the announced size. `note` learns how many
        have, before they are held, and may raise. Raises StreamEnded.
        """
        frame = bytearray()
        await self._take(SIZE_BYTES + size, frame, note)
        return bytes(memoryview(frame)[SIZE_BYTES:])

    async def drop(self, size: int) -> None:
        """Receive and discard the next frame. Raises StreamEnded."""
        await self._take(SIZE_BYTES + size, None)

    def close(self) -> None:
        """Give the buffer back. The caller then closes the socket."""
        self._poller.forget(self._sock)
        # They lead back to the connection, which would otherwise wait for the garbage collector.
        self._consume, self._waiting, self._woken_by = bool, None, Arrival.END
        self._on_hang_up = None
        self._start = self._end = self._run = 0
        self._give_back()

    def _on_ready(self, events: int) -> None:
        self._drained = False
        if events & HANG_UP:
            self._record_hang_up()
        if self._waiting is not None:  # otherwise the task will look itself
            self.waits_since_s = self._poller.turn_s
            if self._look():
                self._poller.again(self._sock)

    def _record_hang_up(self) -> None:
        self._hung_up = True
        if self._on_hang_up is not None:
            self._on_hang_up()

    def _look(self) -> bool:
        """Relay what is here, in place of the task that waits. Whether a turn was too short."""
        try:
            arrival = self._receive_and_consume()
        except Exception as error:  # raised in the task
            self._hand_over(error)
            return False
        if arrival is None:  # nearly always
            return False
        if arrival is Arrival.MORE:
            return True
        self._hand_over(arrival)
        return False

    def _hand_over(self, cause: Arrival | Exception) -> None:
        """Wake the task. If `consume` has begun one already, that raises an error first, and finds
        anything else itself."""
        if self._waiting is not None:
            self._wake(cause)
        elif isinstance(cause, Exception):
            self._woken_by = cause

    def _receive_and_consume(self) -> Arrival | None:
        """None if there are no more bytes, and nothing is left to the task."""
        for receives in _TURN:
            if self._drained or (count := self._receive()) is None:
                self._give_back()
                return None
            if not count:
                return Arrival.END
            if not self._consume():
                self._receives += receives + 1
                self._give_back_if_sent()
                return Arrival.WORK
        return Arrival.MORE

    async def _next_work(self) -> Arrival:
        self._waiting = trio.lowlevel.current_task()
        self.waits_since_s = trio.current_time()
        self._receives = 0
        await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        self.raise_error()
        assert isinstance(self._woken_by, Arrival)
        return self._woken_by

    def _stop_waiting(self, _: Any) -> trio.lowlevel.Abort:
        self._waiting = self.waits_since_s = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self, cause: Arrival | Exception) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        self._woken_by, self.waits_since_s = cause, None
        self._poller.end_turn()
        if isinstance(waiting, trio.lowlevel.Task):
            trio.lowlevel.reschedule(waiting)
        else:
            waiting()

    def _receive(self) -> int | None:
        """Receive once. The number of bytes, 0 at the end of the stream, None if none is here."""
        if self._view is _NOTHING:  # nearly always
            self._view = into = self._spare.pop() if self._spare else new_buffer()
        else:
            self._make_room()
            into = self._view[self._end :]
        try:
            count = self._sock.recv_into(into)
        except BlockingIOError:
            self._drained = True
            return None
        except ConnectionError:
            count = 0  # what arrived before the reset has been received
        if count == 0:
            self.has_ended = True
            self._record_hang_up()
            self._drained = False  # the next call finds the end again
            self._give_back()
            return 0
        self.received += count
        self._end = end = self._end + count
        if self.rest:
            joining = min(self.rest, count)
            self._start += joining
            self.rest -= joining
        self._drained = end < BUFFER_BYTES and not self._hung_up
        if self._drained and isinstance(self._sock, TlsSocket) and self._sock.has_more:
            self._drained = False
            self._poller.end_turn()  # many short records are much work
        return count

    async def _take(
        self, count: int, into: bytearray | None, note: Callable[[int], None] | None = None
    ) -> None:
        assert self._run == self._start, "a run waits to be sent"
        while True:
            here = min(count, self._end - self._start)
            if note is not None:
                note(here)
            if into is not None:
                into += self._view[self._start : self._start + here]
            self._start += here
            self._run = self._start
            count -= here
            if count == 0:
                self._give_back_if_sent()
                return
            await self._fill_or_fail()

    async def _wait(self) -> None:
        self._give_back()
        self.waits_since_s = trio.current_time()
        self._receives = 0
        try:
            await trio.lowlevel.wait_readable(self._sock)
        finally:
            self.waits_since_s = None

    async def _fill_or_fail(self) -> None:
        if not await self.fill():
            raise StreamEnded

    def _make_room(self) -> None:
        assert self._run == self._start, "a run waits to be sent"
        unread = self._view[self._start : self._end]
        if len(self._view) < BUFFER_BYTES:
            self._view = self._spare.pop() if self._spare else new_buffer()
        elif not self._start:
            return
        self._end = len(unread)
        self._view[: self._end] = bytes(unread)
        self._run = self._start = 0

    def _give_back_if_sent(self) -> None:
        """Before a task continues with what is unread. It may wait for its broker to connect, or
        for the answer to a JoinGroup, for minutes."""
        if self._run == self._start:
            self._give_back()

    def _give_back(self) -> None:
        held, start, end = self._view, self._start, self._end
        if start == end:  # nearly always
            self._view = _NOTHING
            self._run = self._start = self._end = 0
        else:
            self._view = memoryview(bytearray(held[start:end]))
            self._run, self._start, self._end = 0, 0, end - start
        if len(held) == BUFFER_BYTES:
            self._spare.append(held)
