"""A TLS connection, both ends."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from gateway.transport import certificates
from gateway.transport.sockets import close
from gateway.transport.tls import TlsSocket, begin_tls
from tests.support.certificate_authority import CertificateAuthority

HOST = "gateway.example"


@asynccontextmanager
async def tls_pair(
    authority: CertificateAuthority, client: ssl.SSLContext, *, wants_certificate: bool = False
) -> AsyncIterator[tuple[TlsSocket, TlsSocket]]:
    """Both ends of a connection, the client's first."""
    files = authority.issue("server", HOST)
    files = files if wants_certificate else replace(files, ca=None)
    ends: dict[str, TlsSocket] = {}

    async def shake(name: str, sock: socket.socket, context: ssl.SSLContext) -> None:
        server_name = HOST if name == "client" else None
        ends[name] = await begin_tls(sock, context, server_name=server_name)

    ours, theirs = socket.socketpair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shake, "client", ours, client)
        nursery.start_soon(shake, "server", theirs, certificates.for_clients(files).current)
    try:
        yield ends["client"], ends["server"]
    finally:
        for end in ends.values():
            close(end)


def say_goodbye(end: TlsSocket) -> None:
    """End TLS, but leave the socket open."""
    with pytest.raises(ssl.SSLWantReadError):  # the peer has not answered
        end._call(end._tls.unwrap)
    end._flush()
