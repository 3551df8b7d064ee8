"""Frames on non-blocking sockets: received, passed on, held or dropped.

This is the narrow interface behind which the relay's speed lives. It knows that a frame starts
with its size and nothing else about Kafka. Sizes are the caller's to check against a limit.

A source takes a buffer from the pool only while there are bytes to look at: a bytearray is
resident at once, and most connections are idle most of the time.
"""

import socket
import struct
from typing import Any

import trio

from gateway.data_path.splice import PipePool, StreamEnded, splice_exactly

BUFFER_BYTES = 128 * 1024
"""Size of a pooled buffer, and so the longest head that a caller may look at."""

SPARE_BUFFERS = 32
"""Buffers kept for the next source. More than these exist only while slow peers hold them."""

SPLICE_FROM_BYTES = 64 * 1024
"""From this remainder on, splicing a frame costs less CPU than copying it."""

TURNS_BEFORE_YIELD = 16
"""Receives that may follow each other before other tasks get their turn."""

SIZE_BYTES = 4
_INT32 = struct.Struct(">i")


class BufferPool:
    """Buffers that any source may take for as long as it has bytes to look at."""

    def __init__(self) -> None:
        self.spare: list[bytearray] = []
        """Buffers that nobody has."""

    def take(self) -> bytearray:
        return self.spare.pop() if self.spare else bytearray(BUFFER_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        if len(self.spare) < SPARE_BUFFERS:
            self.spare.append(buffer)


async def send_all(sock: socket.socket, data: bytes | bytearray | memoryview) -> None:
    """Send everything, waiting only when the socket is full. Raises OSError when the peer is gone.

    Cancelled in the middle, the stream is torn and must be closed.
    """
    rest = memoryview(data)
    while rest:
        try:
            sent = sock.send(rest)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
        else:
            rest = rest[sent:]


class FrameSource:
    """The frames that arrive at one socket, most of which go on to one other socket.

    The caller looks at the next frame's head (`ready`, `unpack`), may change it in place
    (`patch`), and then lets the frame `pass_on`, or takes it out with `hold` or `drop`.
    Frames that passed on and are complete wait as one *run* in the buffer until `flush`; the
    caller flushes before `fill`, `hold` and `drop`.
    """

    def __init__(self, sock: socket.socket, buffers: BufferPool, pipes: PipePool) -> None:
        self._sock = sock
        self._buffers = buffers
        self._pipes = pipes
        self._buffer: bytearray | None = None
        self._view = memoryview(b"")
        self._kept = b""  # bytes not looked at yet, while no buffer is held
        self._run = self._start = self._end = (
            0  # run: [_run, _start); not looked at: [_start, _end)
        )
        self._drained = False  # the last receive was short: the next one would find nothing
        self._turns = 0
        self.waits_since_s: float | None = None
        """Since when bytes are waited for, if they are."""

    @property
    def empty(self) -> bool:
        """Whether nothing of the next frame has arrived."""
        return self._end == self._start and not self._kept

    def ready(self, count: int) -> bool:
        """Whether the next frame's first `count` bytes are here."""
        return self._end - self._start >= count

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next frame's first fields; they must be `ready`."""
        return layout.unpack_from(self._view, self._start)

    def head(self) -> memoryview:
        """What is here of the next frame and those behind it. Valid until the next call."""
        return self._view[self._start : self._end]

    def patch(self, offset: int, value: int) -> None:
        """Overwrite the int32 at this offset of the next frame."""
        _INT32.pack_into(self._view, self._start + offset, value)

    async def fill(self) -> bool:
        """Receive some more; False at the end of the stream. Nothing may wait for a flush."""
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

    async def flush(self, sink: socket.socket | None) -> None:
        """Send the run; `sink` may be None only when there is none."""
        if self._run == self._start:
            return
        assert sink is not None
        await send_all(sink, self._view[self._run : self._start])
        self._run = self._start

    async def pass_on(self, size: int, sink: socket.socket) -> None:
        """Let the next frame go to `sink`, as it is and without ever holding it whole.

        Raises StreamEnded when the source ends before the frame does; the sink is then torn.
        """
        await self.pass_bytes(SIZE_BYTES + size, sink)

    async def pass_bytes(self, count: int, sink: socket.socket) -> None:
        """Let so many bytes of the next frame go to `sink`; the rest of it must follow.

        Raises StreamEnded as `pass_on` does.
        """
        missing = count - (self._end - self._start)
        if missing <= 0:
            self._start = self._end + missing
            return
        self._start = self._end
        await self.flush(sink)
        if missing >= SPLICE_FROM_BYTES and (pipe := self._pipes.take()):
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

        Memory grows with what arrives, not with what the size promises. Raises StreamEnded.
        """
        frame = bytearray()
        await self._take(SIZE_BYTES + size, frame)
        return bytes(memoryview(frame)[SIZE_BYTES:])

    async def drop(self, size: int) -> None:
        """Receive the next frame and forget it. Raises StreamEnded."""
        await self._take(SIZE_BYTES + size, None)

    def close(self) -> None:
        """Give the buffer back; the socket is the caller's to close."""
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
