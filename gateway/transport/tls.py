"""A TLS connection that is used like a non-blocking socket.

OpenSSL sends and receives a record at a time, with two or three calls of the kernel for each. Here
it works on memory, so that one call carries many records.
"""

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import trio

RECORD_BYTES_MAX = 16 * 1024
"""The longest plain text of one record (RFC 8446, section 5.1)."""

PIECE_BYTES_MAX = 64 * 1024
"""The most plain text that is encrypted in one piece, and the most ciphertext received in one."""

UNSENT_BYTES_MAX = 2 * PIECE_BYTES_MAX
"""The most ciphertext that waits for a slow peer: an encrypted piece, and what TLS itself has to
answer to the peer."""

SPARSE_BYTES_MAX = PIECE_BYTES_MAX
SPARSE_RATIO_MAX = 8
"""The most ciphertext that a single receive takes: some without a condition, and the rest for each
byte of plain text in it. Records without data, such as key updates, have no end otherwise."""

RECORDS_PER_RECEIVE = 256
"""The most records that a single receive takes from one piece of ciphertext. Each costs as much as
hundreds of bytes of data, and may have only one byte."""

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

T = TypeVar("T")


def record_asked_host(tls: Any, host: str | None, _: ssl.SSLContext) -> None:
    """Keep the host that a client asks for: a callback for server contexts."""
    setattr(tls, _ASKED_HOST, host)


class _Wire(threading.local):
    """Ciphertext on its way between the sockets and OpenSSL.

    All connections of a thread share it: a memory BIO never shrinks, and most connections are idle
    most of the time. It is empty again after each call of OpenSSL.
    """

    def __init__(self) -> None:
        self.arrived = ssl.MemoryBIO()
        self.departing = ssl.MemoryBIO()
        self.buffer = memoryview(bytearray(PIECE_BYTES_MAX))


_WIRE = _Wire()


class TlsSocket:
    """A TLS connection after its handshake, with those methods of a non-blocking socket that the
    gateway uses.

    As with a socket, `send` and `recv_into` raise BlockingIOError if the caller has to wait, and a
    short receive means that nothing more is here, unless `has_more`. They also raise ssl.SSLError.
    """

    __slots__ = ("_has_ended", "_sock", "_taken", "_tls", "_undecrypted", "_unsent", "has_more")

    def __init__(self, sock: socket.socket, tls: ssl.SSLObject) -> None:
        self._sock = sock
        self._tls = tls
        self._undecrypted: bytes | memoryview = b""  # arrived ciphertext that no call has asked for
        self._unsent: bytes = b""  # ciphertext that the socket has not taken
        self._taken = 0  # bytes of plain text in it, which count as sent once it is
        self._has_ended = False  # nothing follows from the peer
        self.has_more = False
        """Whether the latest receive ended at RECORDS_PER_RECEIVE. No event reports the others."""

    @property
    def subject(self) -> str | None:
        """The subject of the peer's verified certificate, as in Kafka's principals; None if the
        peer has shown none."""
        shown = self._tls.getpeercert()
        return _distinguished_name(shown["subject"]) if shown else None

    @property
    def asked_host(self) -> str | None:
        """The host that the client asked for (SNI), if any."""
        return getattr(self._tls, _ASKED_HOST, None)

    def fileno(self) -> int:
        return self._sock.fileno()

    def getsockname(self) -> Any:
        """Our address, as of a socket."""
        return self._sock.getsockname()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send a piece of `data`. Returns the number of bytes taken.

        After BlockingIOError the next call must begin with the same bytes, which are encrypted.
        """
        if not self._taken:
            self._taken = self._call(self._encrypt, memoryview(data)[:PIECE_BYTES_MAX])
        self._flush()
        taken, self._taken = self._taken, 0
        return taken

    def recv_into(self, view: memoryview) -> int:
        """Receive records until `view` is full, nothing more has arrived, or `has_more`; 0 at the
        end."""
        wanted = len(view)
        count = taken = 0
        self.has_more = False
        if self._undecrypted or self._tls.pending():
            count = self._call(self._decrypt, view)
        while count < wanted and not (self.has_more or self._has_ended):
            if taken > SPARSE_BYTES_MAX + SPARSE_RATIO_MAX * count:
                raise ConnectionAbortedError("the peer sends records with almost no data")
            room = _WIRE.buffer[: max(wanted - count, RECORD_BYTES_MAX)]
            try:
                arrived = self._sock.recv_into(room)
            except BlockingIOError:
                break
            except OSError:
                if not count:
                    raise
                break  # what arrived before comes first
            if arrived:
                taken += arrived
                self._undecrypted = room[:arrived]
                count += self._call(self._decrypt, view[count:])
            else:
                self._has_ended = True
            if arrived < len(room):
                break
        if self._unsent:
            self._answer()
        if not count and not self._has_ended:
            raise BlockingIOError
        if count and self._has_ended:  # the caller waits before it asks again: no byte may follow
            self._end_receiving()
        return count

    def shutdown(self, how: int) -> None:
        """End the connection beneath TLS."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """Say goodbye if that is possible immediately, and close."""
        with contextlib.suppress(OSError):
            self._call(self._tls.unwrap)
        with contextlib.suppress(OSError):
            self._flush()
        self._sock.close()

    async def shake_hands(self) -> None:
        """Raises OSError, which includes ssl.SSLError."""
        while True:
            is_done = self._call(self._shake)
            while self._unsent:
                try:
                    self._flush()
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._sock)
            if is_done:
                return
            self._undecrypted = await self._receive_bytes()

    def _call(self, how: Callable[..., T], *arguments: Any) -> T:
        """Call OpenSSL. It takes the ciphertext that has arrived for this connection; what it
        leaves and what it makes is kept."""
        arrived, departing = _WIRE.arrived, _WIRE.departing
        if self._undecrypted:
            arrived.write(self._undecrypted)
            self._undecrypted = b""
        try:
            return how(*arguments)
        finally:
            if arrived.pending:
                self._undecrypted = arrived.read()
            if departing.pending:
                self._unsent += departing.read()

    def _encrypt(self, data: memoryview) -> int:
        taken = 0
        while taken < len(data):  # a record at a time
            taken += self._tls.write(data[taken:])
        return taken

    def _decrypt(self, view: memoryview) -> int:
        count, wanted = 0, len(view)
        with contextlib.suppress(ssl.SSLWantReadError):
            for _ in range(RECORDS_PER_RECEIVE):
                received: Any = self._tls.read(wanted - count, view[count:])
                if not received:
                    self._has_ended = True
                    break
                count += received
                if count == wanted or not (_WIRE.arrived.pending or self._tls.pending()):
                    break
            else:
                self.has_more = True
        return count

    def _shake(self) -> bool:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            return True
        return False

    def _flush(self) -> None:
        """Send all ciphertext. Raises BlockingIOError, and other OSErrors."""
        while self._unsent:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]

    def _answer(self) -> None:
        """Send what TLS itself has to say, if that is possible immediately."""
        with contextlib.suppress(BlockingIOError):
            self._flush()
        if len(self._unsent) > UNSENT_BYTES_MAX:
            raise ConnectionAbortedError("the peer asks TLS for more than it takes")

    async def _receive_bytes(self) -> bytes:
        while True:
            try:
                data = self._sock.recv(RECORD_BYTES_MAX)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._sock)
            else:
                if not data:
                    raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the peer has closed the connection")
                return data

    def _end_receiving(self) -> None:
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RD)


async def begin_tls(
    sock: socket.socket, context: ssl.SSLContext, *, server_name: str | None = None
) -> TlsSocket:
    """Shake hands over a connected socket: as its client if there is a server name to
    check, otherwise as its server.

    The socket is closed unless the handshake succeeds. Raises OSError, which includes ssl.SSLError.
    The caller limits the time.
    """
    sock.setblocking(False)
    tls = context.wrap_bio(
        _WIRE.arrived,
        _WIRE.departing,
        server_side=server_name is None,
        server_hostname=server_name,
    )
    made = TlsSocket(sock, tls)
    try:
        await made.shake_hands()
    except BaseException:
        trio.lowlevel.notify_closing(sock)
        made.close()
        raise
    return made


def _distinguished_name(parts: Any) -> str:
    """The name in the format of RFC 2253, most specific part first."""
    return ",".join(
        "+".join(
            f"{_SHORT_NAMES.get(kind, kind)}={_SPECIAL.sub(_ESCAPED, name)}" for kind, name in part
        )
        for part in reversed(parts)
    )
