"""Non-blocking connections: a plain socket or a TLS connection, used in the same way."""

import socket

import trio

from gateway.transport.tls import TlsSocket

RECEIVED_BYTES_MAX = 64 * 1024
_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Linux closes a connection whose peer has acknowledged nothing for this many milliseconds."""
_PROBES = tuple(getattr(socket, name, None) for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"))
PROBE_INTERVAL_S = 2


class NullSink:
    """Where to send what a peer that has gone should have got: everything is dropped."""

    def fileno(self) -> int:
        return -1

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Drop all of it."""
        return len(data)


Transport = socket.socket | TlsSocket
"""A non-blocking connection."""

Sink = Transport | NullSink
"""Where bytes can be sent."""


def limit_silence(sock: socket.socket, limit_s: float, probe_after_s: int | None = None) -> None:
    """Have the system close the connection once the other machine has acknowledged nothing for
    `limit_s`. It is asked whether it is there after `probe_after_s` without a packet, by default
    when the system likes: in two hours. Raises OSError if the peer is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if _USER_TIMEOUT is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, round(limit_s * 1000))
    if probe_after_s is not None:
        for option, after_s in zip(_PROBES, (probe_after_s, PROBE_INTERVAL_S), strict=True):
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, after_s)


async def send_all(sock: Sink, data: bytes | bytearray | memoryview) -> None:
    """Send everything, waiting only while the socket is full. Raises OSError if the peer is gone.

    Cancellation may leave a partial frame in the stream, which must then be closed.
    """
    rest = memoryview(data)
    while rest:
        try:
            sent = sock.send(rest)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
        else:
            rest = rest[sent:]


async def receive_some(sock: Transport, count: int) -> bytes:
    """Receive up to this many bytes; none at the end. Raises OSError if the peer is gone."""
    received = memoryview(bytearray(min(count, RECEIVED_BYTES_MAX)))
    while True:
        try:
            return bytes(received[: sock.recv_into(received)])
        except BlockingIOError:
            await trio.lowlevel.wait_readable(sock)


def close(sock: Transport) -> None:
    """Close the connection. Tasks that wait for it get trio.ClosedResourceError."""
    if sock.fileno() >= 0:
        trio.lowlevel.notify_closing(sock)
        sock.close()
