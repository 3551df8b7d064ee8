"""Moves bytes between sockets inside the kernel, which only Linux can.

A pool lends pipes. Without one, because all are lent or on another system, the caller copies.
"""

import contextlib
import fcntl
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import trio

PIPE_BYTES = 256 * 1024
PIPES_MAX = 32
"""The most pipes. The kernel allows an ordinary user 64 MiB of pipes, then makes new ones
smaller."""

TURNS_BEFORE_YIELD = 16
"""Moves in a row before other tasks run."""

_F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ, which Python 3.11 has on Linux only


class StreamEnded(Exception):
    """The source ended within a frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """The two ends of a non-blocking pipe."""

    read_fd: int
    write_fd: int

    def close(self) -> None:
        os.close(self.read_fd)
        os.close(self.write_fd)


class PipePool:
    """Up to `PIPES_MAX` pipes. Returned pipes are empty and are used again."""

    def __init__(self, max_pipes: int = PIPES_MAX) -> None:
        self._spare: list[Pipe] = []
        self._left = max_pipes if sys.platform == "linux" else 0

    def take(self) -> Pipe | None:
        """A pipe, or None if the caller must copy."""
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
        """Return the pipe at the end. After a failure it may hold bytes, so it is closed
        instead."""
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
    try:
        read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # too many open files
        return None
    with contextlib.suppress(PermissionError):  # over the user's limit the pipe stays smaller
        fcntl.fcntl(write_fd, _F_SETPIPE_SZ, PIPE_BYTES)
    return Pipe(read_fd=read_fd, write_fd=write_fd)


async def splice_exactly(
    source: socket.socket,
    sink: socket.socket,
    count: int,
    pipe: Pipe,
    *,
    wait: Callable[[], Awaitable[None]],
    held_up: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Move `count` bytes, calling `wait` while the source has none, and within `held_up` while the
    sink takes none. Raises StreamEnded, or OSError if a peer is gone.

    Each turn empties the pipe before it waits for the source: EAGAIN while filling may mean that
    the pipe is full, not that the source is empty.
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
                with held_up():
                    await trio.lowlevel.wait_writable(sink)
        turns += 1
        if turns % TURNS_BEFORE_YIELD == 0:
            await trio.lowlevel.checkpoint()
