"""Ports at which several processes listen."""

import socket
from contextlib import ExitStack

import pytest
import trio

from gateway.data_path.shared_ports import bound_socket, listen_shared, resolve
from tests.support.ports import HOST, free_port


async def test_several_may_share_a_port_and_a_closed_one_leaves_it_to_the_others() -> None:
    """New connections go to those that listen."""
    port = free_port()
    (address,) = await resolve(HOST)
    first, second = listen_shared(address, port), listen_shared(address, port)
    await first.aclose()
    with trio.fail_after(5):
        for _ in range(8):
            client = await trio.open_tcp_stream(HOST, port)
            await (await second.accept()).aclose()
            await client.aclose()
    await second.aclose()


async def test_a_port_is_shared_only_if_all_want_that() -> None:
    """A coordinator node's own port belongs to it alone."""
    port = free_port()
    (address,) = await resolve(HOST)
    with ExitStack() as sockets:
        alone = sockets.enter_context(bound_socket(address, port))
        alone.listen()
        assert alone.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
        with pytest.raises(OSError, match="in use"):
            listen_shared(address, port)
