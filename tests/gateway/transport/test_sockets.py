"""Bytes are sent and received without blocking other tasks."""

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from gateway.transport.sockets import (
    PROBE_INTERVAL_S,
    RECEIVED_BYTES_MAX,
    NullSink,
    close,
    limit_silence,
    receive_some,
    send_all,
)

LONG = bytes(range(256)) * 40_000  # more than the sockets' buffers hold


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


@pytest.mark.parametrize("probe_after_s", [None, 5])
def test_the_system_closes_the_connection_of_a_silent_machine(probe_after_s: int | None) -> None:
    """Options that the system lacks are left out."""
    names = ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL")
    options = {name: getattr(socket, name) for name in names if hasattr(socket, name)}
    with socket.socket() as sock:
        expected = {name: sock.getsockopt(socket.IPPROTO_TCP, options[name]) for name in options}
        limit_silence(sock, 1.5, probe_after_s)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        expected |= {"TCP_USER_TIMEOUT": 1_500}
        if probe_after_s is not None:
            expected |= {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": PROBE_INTERVAL_S}
        for name, option in options.items():
            assert sock.getsockopt(socket.IPPROTO_TCP, option) == expected[name]


async def test_a_full_socket_is_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    """Everything arrives, in order."""
    ours, theirs = pair
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_all, ours, LONG)
        await trio.testing.wait_all_tasks_blocked()
        received = bytearray()
        while len(received) < len(LONG):
            chunk = await receive_some(theirs, len(LONG))
            assert len(chunk) <= RECEIVED_BYTES_MAX
            received += chunk
    assert received == LONG


async def test_the_end_is_received_as_no_bytes(pair: tuple[socket.socket, socket.socket]) -> None:
    """After all others."""
    ours, theirs = pair
    await send_all(ours, b"last")
    close(ours)
    assert await receive_some(theirs, 100) == b"last"
    assert await receive_some(theirs, 100) == b""


async def test_a_task_that_waits_for_a_closed_connection_learns_of_it(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Closing it again does nothing."""
    ours, _ = pair
    with pytest.RaisesGroup(trio.ClosedResourceError):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_some, ours, 100)
            await trio.testing.wait_all_tasks_blocked()
            close(ours)
            close(ours)


async def test_bytes_for_a_peer_that_has_gone_are_dropped() -> None:
    """At once."""
    await send_all(NullSink(), LONG)
