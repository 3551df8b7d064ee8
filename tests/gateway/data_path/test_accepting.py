"""Clients are accepted in one task, whatever becomes of single ones."""

import errno
import socket
from collections.abc import Callable

import pytest
import trio
from structlog.testing import capture_logs

from gateway.data_path.accepting import ACCEPTED_TOGETHER_MAX, accept_clients
from tests.support.until import until


async def listening(nursery: trio.Nursery, accept: Callable[[socket.socket], None]) -> int:
    """Accept clients at a port, which is returned."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(accept_clients, listener, accept)
    port: int = listener.socket.getsockname()[1]
    return port


async def connect(port: int, count: int) -> list[trio.SocketStream]:
    """Connect this many clients."""
    return [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(count)]


async def test_clients_that_come_together_get_no_tasks() -> None:
    """Their sockets do not block, and send small answers without delay."""
    accepted: list[socket.socket] = []
    count = 2 * ACCEPTED_TOGETHER_MAX + 1
    async with trio.open_nursery() as nursery:
        port = await listening(nursery, accepted.append)
        clients = await connect(port, count)
        await until(lambda: len(accepted) == count)
        assert len(nursery.child_tasks) == 1
        nursery.cancel_scope.cancel()
    for sock in accepted:
        assert not sock.getblocking()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        sock.close()
    for client in clients:
        await client.aclose()


async def test_a_cancelled_task_closes_its_port() -> None:
    """A draining gateway accepts no connections."""
    async with trio.open_nursery() as nursery:
        port = await listening(nursery, socket.socket.close)
        nursery.cancel_scope.cancel()
    with pytest.raises(OSError, match="connect"):
        await connect(port, 1)


@pytest.mark.parametrize(
    ("code", "lines"),
    [(errno.EMFILE, ["connection_not_accepted"]), (errno.ECONNABORTED, [])],
)
async def test_one_failure_ends_nothing(
    code: int, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may be full for a moment, and a client may go before it is accepted."""
    failures = [OSError(code, "failed")]
    accept = socket.socket.accept

    def failing(sock: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise failures.pop()
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", failing)
    accepted: list[socket.socket] = []
    with capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            port = await listening(nursery, accepted.append)
            (client,) = await connect(port, 1)
            await until(lambda: bool(accepted))
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in logged] == lines
    accepted[0].close()
    await client.aclose()
