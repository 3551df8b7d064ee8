"""Serves an ASGI application by HTTP, with hypercorn's protocol on connections of our own.

hypercorn limits neither the number of connections nor how long a client may not read its answer,
and it shields a send from cancellation. So each connection here has a place, each send an end, and
when the gateway ends, its sockets are closed under whatever still sends.

Silent connections never keep others out: a new one replaces the one that has been silent longest.
So a probe, which sends its request immediately, is always served.
"""

import logging
import math
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
import trio
from h11 import LocalProtocolError
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext

from gateway.admin.config import AdminConfig
from gateway.admin.guard import PROBES_MAX, REQUESTS_MAX, Receive, Scope, Send
from gateway.cluster.broker_connection import Address
from gateway.data_path.errors import ListenError
from gateway.data_path.shared_ports import listen_shared, resolve
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal
from gateway.transport.certificates import TlsContext

CONNECTIONS_MAX = REQUESTS_MAX + PROBES_MAX
"""Connections at a time, one for each request that is answered. An address has its share."""
HEADERS_BYTES_MAX = 256 * 1024
"""A path may name a group of 32 KiB, with each byte in three."""
FIRST_REQUEST_S = 3.0
"""How long a client may take for its first request, once it is connected."""
IDLE_S = 30.0
"""How long a client may take for each further request."""
HANDSHAKE_S = 5.0
SEND_S = 10.0
"""How long a client may not read what it is sent."""
STREAMS_MAX = 8
"""Requests at a time on one connection of HTTP/2."""
_PEER_CREDENTIALS = struct.Struct("3i")
"""Process, user and group at the other end of a Unix socket."""

log = structlog.get_logger()


class AcceptFailures(logging.Handler):
    """Replaces the log lines with traceback that Trio writes when it cannot accept a client."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the reason."""
        error = record.exc_info[1] if record.exc_info else None
        reason = error.strerror if isinstance(error, OSError) else record.getMessage()
        log.warning("connection_not_accepted", reason=reason)


@contextmanager
def quiet_accept_failures() -> Iterator[None]:
    """Install `AcceptFailures` while listeners run."""
    trio_log, handler = logging.getLogger("trio.serve_listeners"), AcceptFailures()
    before, trio_log.propagate = trio_log.propagate, False
    trio_log.addHandler(handler)
    try:
        yield
    finally:
        trio_log.removeHandler(handler)
        trio_log.propagate = before


async def serve_http(
    app: Any,
    config: AdminConfig,
    *,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled. Reports its address. Raises ListenError."""
    host, _port = config.listen
    try:
        listeners = await _listen(config)
    except OSError as error:
        raise _cannot_listen(config, error) from None
    server = HttpServer(app, config.tls)
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


async def check_admin_port(config: AdminConfig) -> None:
    """Raises ListenError if a port that several processes are to share is taken by another
    gateway."""
    try:
        for listener in await _listen(replace(config, is_shared=False)):
            await listener.aclose()
    except OSError as error:
        raise _cannot_listen(config, error) from None


def _cannot_listen(config: AdminConfig, error: OSError) -> ListenError:
    host, port = config.listen
    reason = error.strerror or str(error)
    return ListenError(
        f"cannot listen on {host}:{port} (admin_listen): {reason}; give another --admin-listen"
    )


async def _listen(config: AdminConfig) -> list[trio.SocketListener]:
    """Raises OSError."""
    host, port = config.listen
    if not config.is_shared:
        return await trio.open_tcp_listeners(port, host=host)
    return [listen_shared(address, port) for address in await resolve(host)]


class HttpServer:
    """Serves the application on accepted connections."""

    def __init__(self, app: Any, tls: TlsContext | None = None) -> None:
        """The scope of each request has `given_by`: the client as the event about a command names
        it."""
        self._app = app
        self._tls = tls
        self._config = _hypercorn_config()
        self._context = WorkerContext(None)
        self._open: dict[_Connection, None] = {}
        """The connections, those that have been silent longest first."""
        self._places = SharedTotal(CONNECTIONS_MAX)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        try:
            connection = _Connection(stream)
        except OSError:
            stream.socket.close()
            return
        if not self._has_room(connection.owner):
            stream.socket.close()
            return
        self._open[connection] = None
        self._places.take(connection.owner)
        try:
            with connection.scope:
                limited_stream = _TimeLimitedStream(stream, connection.scope.cancel)
                transport: Any = limited_stream
                if self._tls is not None:
                    transport = trio.SSLStream(
                        limited_stream, self._tls.current, server_side=True, https_compatible=True
                    )
                    connection.scope.deadline += HANDSHAKE_S
                app = ASGIWrapper(partial(self._answer, connection))
                await TCPServer(app, self._config, self._context, {}, transport)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
            pass  # the client has gone, or does not speak TLS
        except* LocalProtocolError:
            pass  # hypercorn answers a client that has broken the protocol already
        except* Exception:  # the boundary: a bug ends one connection
            log.exception("admin_connection_failed")
        finally:
            self._leave(connection)
            stream.socket.close()

    def _has_room(self, owner: QuotaKey) -> bool:
        """Whether one more connection of this address may be served. A silent one gives way."""
        if self._places.has_room(owner):
            return True
        return self._end_silent(owner if self._places.has_room(None) else None)

    def _end_silent(self, owner: QuotaKey | None) -> bool:
        """End the connection that has been silent longest, of this address or of all. False if none
        is silent."""
        for connection in self._open:
            is_candidate = owner in (None, connection.owner)
            if is_candidate and not connection.requests:
                connection.scope.cancel()
                self._leave(connection)
                return True
        return False

    def _leave(self, connection: "_Connection") -> None:
        """Free the connection's place, once."""
        if connection in self._open:
            del self._open[connection]
            self._places.free(connection.owner)

    async def _answer(
        self, connection: "_Connection", scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Have the application answer a request, for which the connection may take its time."""
        connection.requests += 1
        connection.scope.deadline = math.inf
        scope["given_by"] = connection.given_by
        try:
            await self._app(scope, receive, send)
        finally:
            connection.requests -= 1
            if not connection.requests:
                connection.scope.deadline = trio.current_time() + IDLE_S
                if connection in self._open:  # as the latest that has become silent
                    del self._open[connection]
                    self._open[connection] = None

    def finish(self, within_s: float) -> None:
        """End the connections: those that are silent now, the others once they had so long to be
        answered."""
        until = trio.current_time() + within_s
        for connection in self._open:
            connection.scope.deadline = until if connection.requests else -math.inf

    def close(self) -> None:
        """Close all connections."""
        for connection in self._open:
            connection.stream.socket.close()


class _Connection:
    """One connection, which ends when its client is silent for too long."""

    def __init__(self, stream: trio.SocketStream) -> None:
        """Raises OSError if the client has gone already."""
        self.stream = stream
        self.owner, self.given_by = _identify(stream.socket)
        self.requests = 0
        """Requests that are being answered."""
        self.scope = trio.CancelScope(deadline=trio.current_time() + FIRST_REQUEST_S)


def _identify(connected: trio.socket.SocketType) -> tuple[QuotaKey, str]:
    """Whose share of the places a client takes, and its name. Raises OSError."""
    if connected.family == socket.AF_UNIX:
        credentials = connected.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size
        )
        process, user, _ = _PEER_CREDENTIALS.unpack(credentials)
        return QuotaKey(f"user {user}"), f"control socket: user {user}, process {process}"
    host = connected.getpeername()[0]
    return QuotaKey(host), f"admin API: {host}"


class _TimeLimitedStream(trio.abc.HalfCloseableStream):
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
        received: bytes | bytearray = b""
        try:
            received = await self._stream.receive_some(max_bytes)
        finally:
            if not received:
                self._end()
        return received

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _hypercorn_config() -> Config:
    settings = Config()
    settings.errorlog = None  # the application logs its own bugs
    settings.include_server_header = False
    settings.keep_alive_timeout = IDLE_S  # the connection's own deadline is shorter before that
    settings.ssl_handshake_timeout = HANDSHAKE_S
    settings.h11_max_incomplete_size = HEADERS_BYTES_MAX
    settings.h2_max_concurrent_streams = STREAMS_MAX
    settings.h2_max_header_list_size = HEADERS_BYTES_MAX
    return settings
