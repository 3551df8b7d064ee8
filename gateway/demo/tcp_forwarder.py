"""A bootstrap address that can be pointed somewhere else, as a DNS name or a load balancer can."""

from contextlib import suppress
from functools import partial

import trio

CHUNK_BYTES = 64 * 1024


class TcpForwarder:
    """Forwards connections to where it points when they arrive."""

    def __init__(self, target: str) -> None:
        """`target` is a HOST:PORT."""
        self.target = target
        """Where new connections lead. Those that are there stay."""

    async def run(self, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Forward until cancelled. Reports the address."""
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, self._forward, 0, host="127.0.0.1")
            (listener, *_) = await nursery.start(serve)
            task_status.started(f"127.0.0.1:{listener.socket.getsockname()[1]}")

    async def _forward(self, client: trio.SocketStream) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            async with await trio.open_tcp_stream(host, int(port)) as server:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_copy, client, server, nursery.cancel_scope)
                    nursery.start_soon(_copy, server, client, nursery.cancel_scope)
        except OSError:
            pass  # nobody listens there: the client's connection closes


async def _copy(source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope) -> None:
    """Copy until either side has closed, and end `both` directions then."""
    with suppress(trio.BrokenResourceError):
        while chunk := await source.receive_some(CHUNK_BYTES):
            await sink.send_all(chunk)
    both.cancel()
