"""Non-blocking connections: a plain socket or a TLS connection, used in the same way."""

import socket

import trio

from gateway.transport.tls import TlsSocket

RECEIVED_BYTES_MAX = 64 * 1024


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
