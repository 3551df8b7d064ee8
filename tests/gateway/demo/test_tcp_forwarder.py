"""A front forwards to where it points, and can be pointed somewhere else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from gateway.demo.tcp_forwarder import TcpForwarder


@asynccontextmanager
async def server(name: bytes) -> AsyncIterator[str]:
    """A server that sends its name to every client that sends something."""

    async def serve(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            await stream.send_all(name)

    async with trio.open_nursery() as nursery:
        listen = partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listen)
        yield f"127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_new_connections_follow_and_old_ones_stay() -> None:
    """Connections behave as they do with a name that changes."""
    async with server(b"a") as a, server(b"b") as b, trio.open_nursery() as nursery:
        forwarder = TcpForwarder(a)
        host, _, port = (await nursery.start(forwarder.run)).rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as old:
            await old.send_all(b"?")
            assert await old.receive_some() == b"a"
            forwarder.target = b
            async with await trio.open_tcp_stream(host, int(port)) as new:
                await new.send_all(b"?")
                assert await new.receive_some() == b"b"
            await old.send_all(b"?")
            assert await old.receive_some() == b"a"
        nursery.cancel_scope.cancel()


async def test_a_target_that_does_not_listen_closes_the_connection() -> None:
    """The client tries again later."""
    async with server(b"a") as gone:
        pass
    async with trio.open_nursery() as nursery:
        host, _, port = (await nursery.start(TcpForwarder(gone).run)).rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as client:
            assert await client.receive_some() == b""
        nursery.cancel_scope.cancel()


async def test_the_connection_of_a_client_that_leaves_ends_at_the_target() -> None:
    """The gateway would count it among the clients that it cannot send away."""
    closed = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        async for _data in stream:
            await stream.send_all(b"a")
        closed.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
            target = f"127.0.0.1:{listener.socket.getsockname()[1]}"
            host, _, port = (await nursery.start(TcpForwarder(target).run)).rpartition(":")
            async with await trio.open_tcp_stream(host, int(port)) as client:
                await client.send_all(b"?")
                assert await client.receive_some() == b"a"
            await closed.wait()
            nursery.cancel_scope.cancel()
