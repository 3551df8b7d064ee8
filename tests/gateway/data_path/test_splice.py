"""Pipes between sockets, and their pool."""

import errno
import os
import socket
from functools import partial

import pytest
import trio
import trio.testing

from gateway.data_path.splice import Pipe, PipePool, StreamEnded, splice_exactly


def test_the_pool_lends_a_limited_number_of_pipes() -> None:
    """Beyond the limit the caller copies."""
    pool = PipePool(max_pipes=2)
    first, second = pool.take(), pool.take()
    assert first
    assert second
    assert pool.take() is None
    with pool.lend(first):
        pass
    assert pool.take() is first
    for pipe in (first, second):
        with pool.lend(pipe):
            pass
    pool.close()


def test_a_pipe_that_may_contain_bytes_is_never_reused() -> None:
    """After a failure it is closed, and another may replace it."""
    pool = PipePool(max_pipes=1)
    pipe = pool.take()
    assert pipe
    with pytest.raises(OSError, match="gone"), pool.lend(pipe):
        raise OSError("gone")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe.read_fd)
    fresh = pool.take()
    assert fresh
    fresh.close()


async def test_small_segments_fill_a_pipe_without_a_deadlock() -> None:
    """A pipe has few slots, so it is emptied before the source is read again."""
    source_peer, source = socket.socketpair()
    sink, sink_peer = socket.socketpair()
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK)
    for end in (source_peer, source, sink, sink_peer):
        end.setblocking(False)
    total = 0
    with source_peer, source, sink, sink_peer:
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:

                async def send() -> None:
                    for _ in range(5000):
                        while True:
                            try:
                                source_peer.send(b"x" * 100)
                                break
                            except BlockingIOError:
                                await trio.lowlevel.wait_writable(source_peer)

                async def receive() -> None:
                    nonlocal total
                    while total < 500_000:
                        await trio.lowlevel.wait_readable(sink_peer)
                        total += len(sink_peer.recv(65536))

                nursery.start_soon(send)
                nursery.start_soon(receive)
                pipe = Pipe(read_fd=read_fd, write_fd=write_fd)
                readable = partial(trio.lowlevel.wait_readable, source)
                await splice_exactly(source, sink, 500_000, pipe, wait=readable)
        assert total == 500_000
        pipe.close()


async def test_a_source_that_ends_early_is_an_error() -> None:
    """The received bytes are already in the sink."""
    source_peer, source = socket.socketpair()
    sink, sink_peer = socket.socketpair()
    pool = PipePool()
    pipe = pool.take()
    assert pipe
    with source_peer, source, sink, sink_peer:
        for end in (source, sink):
            end.setblocking(False)
        source_peer.sendall(b"abc")
        source_peer.shutdown(socket.SHUT_WR)
        readable = partial(trio.lowlevel.wait_readable, source)
        with pytest.raises(StreamEnded), pool.lend(pipe):
            await splice_exactly(source, sink, 10, pipe, wait=readable)
        assert sink_peer.recv(10) == b"abc"


def test_without_another_open_file_the_caller_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error would count as the end of the client that the answer is for."""

    def pipe2(_flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "pipe2", pipe2)
    assert PipePool().take() is None
