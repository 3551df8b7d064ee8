"""Frames on non-blocking connections: receive them, relay them, hold them or drop them.

The speed of the relay depends on this narrow interface. It knows about Kafka only that a frame
begins with its size. The caller checks sizes against its limits.

A source holds a buffer only while it has bytes to look at: a bytearray is resident at once, and
most connections are idle most of the time.
"""

import socket
import struct
from typing import Any

import trio

from gateway.data_path.splice import PipePool, StreamEnded, splice_exactly
from gateway.transport.sockets import Transport, send_all

BUFFER_BYTES = 128 * 1024
"""The size of a pooled buffer, and so the longest head that a caller can look at."""

SPARE_BUFFERS = 32
"""Buffers kept for later sources. More exist only while slow peers hold them."""

SPLICE_FROM_BYTES = 64 * 1024
"""From this many remaining bytes on, splicing costs less CPU than copying. TLS is always copied."""

TURNS_BEFORE_YIELD = 16
"""Receives in a row before other tasks run."""

SIZE_BYTES = 4
_INT32 = struct.Struct(">i")


class BufferPool:
    """Buffers that sources take while they have bytes to look at."""

    def __init__(self) -> None:
        self.spare: list[bytearray] = []
        """The unused buffers."""

    def take(self) -> bytearray:
        return self.spare.pop() if self.spare else bytearray(BUFFER_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        if len(self.spare) < SPARE_BUFFERS:
            self.spare.append(buffer)


class FrameSource:
    """The frames that arrive at one socket, most of which are relayed to one other socket.

    The caller looks at the head of the next frame (`ready`, `unpack`), may change it in place
    (`patch`), and then relays the frame (`pass_on`) or takes it out (`hold`, `drop`). Complete
    relayed frames wait as one *run* in the buffer until `flush`; the caller flushes before `fill`,
    `hold` and `drop`.
    """

    def __init__(self, sock: Transport, buffers: BufferPool, pipes: PipePool) -> None:
        self._sock = sock
        self._buffers = buffers
        self._pipes = pipes
        self._buffer: bytearray | None = None
        self._view = memoryview(b"")
        self._kept = b""  # unread bytes while no buffer is held
        self._run = self._start = self._end = 0  # run: [_run, _start); unread: [_start, _end)
        self._drained = False  # the last receive was short, so another would find nothing
        self._turns = 0
        self.waits_since_s: float | None = None
        """Since when the source has been waiting for bytes, None if it is not."""

    @property
    def empty(self) -> bool:
        """Whether no byte of the next frame has arrived."""
        return self._end == self._start and not self._kept

    def ready(self, count: int) -> bool:
        """Whether the first `count` bytes of the next frame have arrived."""
        return self._end - self._start >= count

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The first fields of the next frame; they must be `ready`."""
        return layout.unpack_from(self._view, self._start)

    def head(self) -> memoryview:
        """The unread bytes that have arrived. Valid until the next call."""
        return self._view[self._start : self._end]

    def patch(self, offset: int, value: int) -> None:
        """Overwrite the int32 at this offset in the next frame."""
        _INT32.pack_into(self._view, self._start + offset, value)

    async def fill(self) -> bool:
        """Receive more bytes. False at the end of the stream. The run must have been flushed."""
        if self._drained:
            await self._wait()
        while True:
            self._make_room()
            room = len(self._view) - self._end
            try:
                count = self._sock.recv_into(self._view[self._end :])
            except BlockingIOError:
                await self._wait()
                continue
            self._end += count
            self._drained = count < room
            if count == 0:
                self._give_back()
            self._turns += 1
            if self._turns % TURNS_BEFORE_YIELD == 0:
                await trio.lowlevel.checkpoint()
            return count > 0

    async def flush(self, sink: Transport | None) -> None:
        """Send the run. `sink` may be None only if the run is empty."""
        if self._run == self._start:
            return
        assert sink is not None
        await send_all(sink, self._view[self._run : self._start])
        self._run = self._start

    async def pass_on(self, size: int, sink: Transport) -> None:
        """Relay the next frame to `sink` without holding it whole.

        Raises StreamEnded if the source ends within the frame; the sink then has a partial frame.
        """
        await self.pass_bytes(SIZE_BYTES + size, sink)

    async def pass_bytes(self, count: int, sink: Transport) -> None:
        """Relay `count` bytes of the next frame to `sink`. The caller relays the rest afterwards.

        Raises StreamEnded as `pass_on` does.
        """
        missing = count - (self._end - self._start)
        if missing <= 0:
            self._start = self._end + missing
            return
        self._start = self._end
        await self.flush(sink)
        if (
            missing >= SPLICE_FROM_BYTES
            and isinstance(self._sock, socket.socket)
            and isinstance(sink, socket.socket)
            and (pipe := self._pipes.take())
        ):
            self._give_back()
            self._drained = False
            with self._pipes.lend(pipe):
                await splice_exactly(self._sock, sink, missing, pipe, wait=self._wait)
            return
        while missing > 0:
            await self._fill_or_fail()
            here = min(missing, self._end - self._start)
            self._start += here
            missing -= here
            if missing:
                await self.flush(sink)

    async def hold(self, size: int) -> bytes:
        """The whole next frame without its size. The caller has checked `size` against a limit.

        Memory grows with the bytes that arrive, not with the announced size. Raises StreamEnded.
        """
        frame = bytearray()
        await self._take(SIZE_BYTES + size, frame)
        return bytes(memoryview(frame)[SIZE_BYTES:])

    async def drop(self, size: int) -> None:
        """Receive and discard the next frame. Raises StreamEnded."""
        await self._take(SIZE_BYTES + size, None)

    def close(self) -> None:
        """Give the buffer back. The caller closes the socket."""
        self._start = self._end = self._run = 0
        self._give_back()

    async def _take(self, count: int, into: bytearray | None) -> None:
        assert self._run == self._start, "a run waits for its flush"
        while True:
            here = min(count, self._end - self._start)
            if into is not None:
                into += self._view[self._start : self._start + here]
            self._start += here
            self._run = self._start
            count -= here
            if count == 0:
                return
            await self._fill_or_fail()

    async def _wait(self) -> None:
        self._give_back()
        self.waits_since_s = trio.current_time()
        try:
            await trio.lowlevel.wait_readable(self._sock)
        finally:
            self.waits_since_s = None

    async def _fill_or_fail(self) -> None:
        if not await self.fill():
            raise StreamEnded

    def _make_room(self) -> None:
        assert self._run == self._start, "a run waits for its flush"
        if self._buffer is None:
            self._buffer = self._buffers.take()
            self._view = memoryview(self._buffer)
            self._end = len(self._kept)
            self._view[: self._end] = self._kept
            self._kept = b""
        elif self._start:
            rest = bytes(self._view[self._start : self._end])
            self._end = len(rest)
            self._view[: self._end] = rest
        self._run = self._start = 0

    def _give_back(self) -> None:
        if self._buffer is None:
            return
        self._kept = bytes(self._view[self._start : self._end])
        self._run = self._start = self._end = 0
        self._view = memoryview(b"")
        self._buffers.give_back(self._buffer)
        self._buffer = None
