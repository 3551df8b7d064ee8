"""Moving bytes from socket to socket inside the kernel. The only Linux-only module.

A pool hands out pipes; when it has none (all lent, or not Linux) the caller copies instead.
"""

import contextlib
import fcntl
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import trio

PIPE_BYTES = 256 * 1024
PIPES_MAX = 32
"""Pipes at most. The kernel gives an ordinary user 64 MiB of them, then shrinks new ones."""

TURNS_BEFORE_YIELD = 16
"""Moves that may follow each other before other tasks get their turn."""

_F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ, which Python 3.11 has on Linux only


class StreamEnded(Exception):
    """The source ended in the middle of a frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """The two ends of a pipe that never block."""

    read_fd: int
    write_fd: int

    def close(self) -> None:
        os.close(self.read_fd)
        os.close(self.write_fd)


class PipePool:
    """At most `PIPES_MAX` pipes; those that are given back are clean and are used again."""

    def __init__(self, max_pipes: int = PIPES_MAX) -> None:
        self._spare: list[Pipe] = []
        self._left = max_pipes if sys.platform == "linux" else 0

    def take(self) -> Pipe | None:
        """A pipe, or None: then copy."""
        if self._spare:
            return self._spare.pop()
        if not self._left:
            return None
        pipe = _open_pipe()
        if pipe is not None:
            self._left -= 1
        return pipe

    @contextlib.contextmanager
    def lend(self, pipe: Pipe) -> Iterator[None]:
        """Take the pipe back at the end, or close it: after a failure it may hold bytes."""
        try:
            yield
        except BaseException:
            pipe.close()
            self._left += 1
            raise
        self._spare.append(pipe)

    def close(self) -> None:
        """Close the spare pipes."""
        while self._spare:
            self._spare.pop().close()


def _open_pipe() -> Pipe | None:
    if sys.platform != "linux":
        return None
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(PermissionError):  # beyond the user's share: smaller, still right
        fcntl.fcntl(write_fd, _F_SETPIPE_SZ, PIPE_BYTES)
    return Pipe(read_fd=read_fd, write_fd=write_fd)


async def splice_exactly(
    source: socket.socket,
    sink: socket.socket,
    count: int,
    pipe: Pipe,
    *,
    wait: Callable[[], Awaitable[None]],
) -> None:
    """Move `count` bytes; `wait` until the source has some. Raises StreamEnded, or OSError when a
    peer is gone.

    Each turn empties the pipe before it waits for the source: EAGAIN from filling it may mean
    that it has no slot left, not that the source has no bytes.
    """
    assert sys.platform == "linux"  # for the type checker: no pool has a pipe elsewhere
    turns = 0
    while count:
        try:
            filled = os.splice(
                source.fileno(), pipe.write_fd, min(count, PIPE_BYTES), flags=os.SPLICE_F_NONBLOCK
            )
        except BlockingIOError:
            await wait()
            continue
        if filled == 0:
            raise StreamEnded
        count -= filled
        while filled:
            try:
                filled -= os.splice(pipe.read_fd, sink.fileno(), filled, flags=os.SPLICE_F_NONBLOCK)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(sink)
        turns += 1
        if turns % TURNS_BEFORE_YIELD == 0:
            await trio.lowlevel.checkpoint()
