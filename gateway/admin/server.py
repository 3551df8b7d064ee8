"""Serves an ASGI application by HTTP, with hypercorn's protocol on connections of our own.

hypercorn limits neither the number of connections nor how long a client may not read its answer,
and it shields a send from cancellation. So each connection here has a place, each send an end, and
when the gateway ends, its sockets are closed under whatever still sends.
"""

import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext

from gateway.admin.config import AdminConfig
from gateway.cluster.broker_connection import Address
from gateway.data_path.errors import ListenError
from gateway.data_path.listeners import quiet_accept_failures
from gateway.transport.certificates import TlsContext

CONNECTIONS_MAX = 64
HEADERS_BYTES_MAX = 256 * 1024
"""A path may name a group of 32 KiB, with each byte in three."""
IDLE_S = 30.0
"""How long a client may be silent between two requests, and until its request has come."""
HANDSHAKE_S = 5.0
SEND_S = 10.0
"""How long a client may not read what it is sent."""
STREAMS_MAX = 8
"""Requests at a time on one connection of HTTP/2."""

log = structlog.get_logger()


async def serve_http(
    app: Any,
    config: AdminConfig,
    *,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled. Reports its address. Raises ListenError."""
    host, port = config.listen
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        why = error.strerror or str(error)
        raise ListenError(f"cannot listen on {host}:{port} (admin_listen): {why}") from None
    server = _Server(app, config.tls)
    bound = listeners[0].socket.getsockname()
    try:
        with quiet_accept_failures():
            async with trio.open_nursery() as nursery:
                await nursery.start(
                    partial(trio.serve_listeners, server.serve, listeners, handler_nursery=nursery)
                )
                task_status.started((host, bound[1]))
                try:
                    await trio.sleep_forever()
                finally:
                    server.close()
    finally:
        for listener in listeners:
            listener.socket.close()


class _Server:
    def __init__(self, app: Any, tls: TlsContext | None) -> None:
        self._app = ASGIWrapper(app)
        self._tls = tls
        self._config = _hypercorn_config()
        self._context = WorkerContext(None)
        self._open: set[trio.SocketStream] = set()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        if len(self._open) >= CONNECTIONS_MAX:
            stream.socket.close()
            return
        self._open.add(stream)
        try:
            with trio.CancelScope() as scope:
                patient = _Patient(stream, scope.cancel)
                transport: Any = patient
                if self._tls is not None:
                    transport = trio.SSLStream(
                        patient, self._tls.current, server_side=True, https_compatible=True
                    )
                await TCPServer(self._app, self._config, self._context, {}, transport)
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
            pass  # the client has gone, or is none
        except Exception:  # the boundary: a bug ends one connection
            log.exception("admin_connection_failed")
        finally:
            self._open.discard(stream)
            stream.socket.close()

    def close(self) -> None:
        """Close all connections."""
        for stream in self._open:
            stream.socket.close()


class _Patient(trio.abc.HalfCloseableStream):
    """A socket stream that gives up a client which does not read."""

    def __init__(self, stream: trio.SocketStream, end: Callable[[], object]) -> None:
        """`end` is called when the client has gone. hypercorn would keep the connection for as long
        as an idle one."""
        self._stream = stream
        self._end = end
        self.socket = stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Raises BrokenResourceError if the client is too slow."""
        try:
            with trio.fail_after(SEND_S):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            raise trio.BrokenResourceError("the client does not read") from None

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        found: bytes | bytearray = b""
        try:
            found = await self._stream.receive_some(max_bytes)
        finally:
            if not found:
                self._end()
        return found

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _hypercorn_config() -> Config:
    made = Config()
    made.errorlog = None  # the application logs its own bugs
    made.include_server_header = False
    made.keep_alive_timeout = IDLE_S
    made.ssl_handshake_timeout = HANDSHAKE_S
    made.h11_max_incomplete_size = HEADERS_BYTES_MAX
    made.h2_max_concurrent_streams = STREAMS_MAX
    made.h2_max_header_list_size = HEADERS_BYTES_MAX
    return made
