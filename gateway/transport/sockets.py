"""Non-blocking connections: a plain socket or a TLS connection, used in the same way."""

import contextlib
import re
import socket
import ssl
from typing import Any

import trio

RECEIVED_BYTES_MAX = 64 * 1024

_SHORT_NAMES = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
}
_ASKED_HOST = "asked_host"  # ssl tells it only during the handshake
_SPECIAL = re.compile(r'[,+"\\<>;]')
_ESCAPED = r"\\\g<0>"


def note_asked_host(sock: Any, host: str | None, _: ssl.SSLContext) -> None:
    """Keep the host that a client asks for: a callback for server contexts."""
    setattr(sock, _ASKED_HOST, host)


class TlsSocket:
    """A TLS connection after its handshake, with those methods of a non-blocking socket that the
    gateway uses.

    As with a socket, `send` and `recv_into` raise BlockingIOError if the caller has to wait, and a
    short receive means that nothing more is here.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock

    @property
    def subject(self) -> str | None:
        """The subject of the peer's verified certificate, as in Kafka's principals; None if the
        peer has shown none."""
        shown = self._sock.getpeercert()
        return _distinguished_name(shown["subject"]) if shown else None

    @property
    def asked_host(self) -> str | None:
        """The host that the client asked for (SNI), if any."""
        return getattr(self._sock, _ASKED_HOST, None)

    def fileno(self) -> int:
        return self._sock.fileno()

    def getsockname(self) -> Any:
        """Our address, as of a socket."""
        return self._sock.getsockname()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send at most one TLS record. Returns the number of bytes taken."""
        try:
            return self._sock.send(data)
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None

    def recv_into(self, view: memoryview) -> int:
        """Receive records until `view` is full or nothing more has arrived; 0 at the end."""
        count = 0
        try:
            while count < len(view):
                received = self._sock.recv_into(view[count:])
                if received == 0:
                    if count:  # the caller waits before it asks again, and no byte may follow
                        self._end_receiving()
                    return count
                count += received
        except ssl.SSLWantReadError:
            if not count:
                raise BlockingIOError from None
        return count

    def shutdown(self, how: int) -> None:
        """End the connection beneath TLS."""
        # SSLSocket's own would forget that there is TLS, and go on with plain text.
        socket.socket.shutdown(self._sock, how)

    def close(self) -> None:
        """Say goodbye if that is possible at once, and close."""
        with contextlib.suppress(OSError, ValueError):
            self._sock.unwrap()
        self._sock.close()

    def _end_receiving(self) -> None:
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RD)


class Nowhere:
    """Drops what is sent to a peer that has gone."""

    def fileno(self) -> int:
        return -1

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Drop all of it."""
        return len(data)


Transport = socket.socket | TlsSocket
"""A non-blocking connection."""

Sink = Transport | Nowhere
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


async def begin_tls(
    sock: socket.socket, context: ssl.SSLContext, *, server_name: str | None = None
) -> TlsSocket:
    """Shake hands over a connected socket: as its client if there is a server name to
    check, otherwise as its server.

    The socket is closed unless the handshake succeeds. Raises OSError, of which ssl.SSLError is
    one. The caller limits the time.
    """
    sock.setblocking(False)  # SSLSocket goes by the object's timeout, not by the file's flag
    wrapped = context.wrap_socket(
        sock,
        server_side=server_name is None,
        server_hostname=server_name,
        do_handshake_on_connect=False,
    )
    try:
        while True:
            try:
                wrapped.do_handshake()
                return TlsSocket(wrapped)
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(wrapped)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(wrapped)
    except BaseException:
        trio.lowlevel.notify_closing(wrapped)
        wrapped.close()
        raise


def _distinguished_name(parts: Any) -> str:
    """The name in the format of RFC 2253, most specific part first."""
    return ",".join(
        "+".join(
            f"{_SHORT_NAMES.get(kind, kind)}={_SPECIAL.sub(_ESCAPED, name)}" for kind, name in part
        )
        for part in reversed(parts)
    )
