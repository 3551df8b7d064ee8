"""Connections with TLS behave as plain sockets do."""

import socket
import ssl
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from gateway.transport import certificates
from gateway.transport.sockets import (
    TlsSocket,
    Transport,
    begin_tls,
    close,
    receive_some,
    send_all,
)
from tests.support.certificate_authority import CertificateAuthority
from tests.support.tls_pair import HOST, tls_pair

LONG = bytes(range(256)) * 16 * 1024  # 4 MiB, more than the sockets' buffers hold


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """Signs every certificate here."""
    return CertificateAuthority.in_folder(tmp_path_factory.mktemp("authority"))


async def received(sock: Transport, count: int) -> bytes:
    """Exactly this many bytes."""
    data = b""
    while len(data) < count:
        data += await receive_some(sock, count - len(data))
    return data


async def test_a_long_message_arrives_while_its_receiver_is_slow(
    authority: CertificateAuthority,
) -> None:
    """The sender waits as soon as the socket is full."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_all, client, LONG)
            await trio.testing.wait_all_tasks_blocked()
            assert await received(server, len(LONG)) == LONG


async def test_a_receive_takes_all_records_that_are_here(authority: CertificateAuthority) -> None:
    """A short receive therefore means that nothing more is here."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        for part in (b"a" * 20_000, b"b" * 20_000):
            await send_all(client, part)
        view = memoryview(bytearray(100_000))
        assert server.recv_into(view) == 40_000
        with pytest.raises(BlockingIOError):
            server.recv_into(view)


async def test_the_end_after_the_last_bytes_is_seen_without_a_wait(
    authority: CertificateAuthority,
) -> None:
    """A peer may say goodbye in TLS and keep the socket open, so that no byte follows."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        await send_all(client, b"last")
        with pytest.raises(ssl.SSLWantReadError):
            client._sock.unwrap()
        assert await receive_some(server, 100) == b"last"
        with trio.fail_after(5):
            await trio.lowlevel.wait_readable(server)
        assert await receive_some(server, 100) == b""


async def test_a_closed_connection_ends_its_peer(authority: CertificateAuthority) -> None:
    """As with a plain socket."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        close(client)
        close(client)
        assert await receive_some(server, 100) == b""


async def test_nothing_is_received_in_plain_text_after_a_shutdown(
    authority: CertificateAuthority,
) -> None:
    """SSLSocket itself would forget its keys."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        await send_all(client, b"secret")
        server.shutdown(socket.SHUT_RDWR)
        assert await receive_some(server, 100) in {b"", b"secret"}


async def test_the_subject_of_a_verified_certificate_has_kafkas_format(
    authority: CertificateAuthority,
) -> None:
    """Special characters are escaped."""
    context = authority.trusting()
    files = authority.issue('me, "myself"')
    assert files.cert
    context.load_cert_chain(files.cert, files.key)
    async with tls_pair(authority, context, wants_certificate=True) as (client, server):
        await send_all(client, b"!")
        await received(server, 1)
        subject = server.subject
        assert subject is not None
        assert subject.startswith('CN=me\\, \\"myself\\",OU=')
        assert client.subject is not None


async def test_a_client_without_a_certificate_has_no_subject(
    authority: CertificateAuthority,
) -> None:
    """If none is wanted."""
    async with tls_pair(authority, authority.trusting()) as (_, server):
        assert server.subject is None


async def test_a_failed_handshake_closes_the_socket(authority: CertificateAuthority) -> None:
    """The client does not know the authority."""
    stranger = ssl.create_default_context()
    with pytest.raises(BaseExceptionGroup) as caught:
        async with tls_pair(authority, stranger):
            pass
    kinds = {type(each) for each in caught.value.exceptions}
    assert ssl.SSLCertVerificationError in kinds


async def test_a_certificate_for_another_host_is_refused(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    """Unless the settings say otherwise."""
    served = certificates.for_clients(replace(authority.issue("other", "other.example"), ca=None))
    files = certificates.CertificateFiles(ca=authority.ca)

    async def shakes_hands(*, check_host: bool) -> bool:
        ours, theirs = socket.socketpair()
        context = certificates.for_brokers(files, check_host=check_host).current
        made: list[TlsSocket] = []
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(begin_tls, theirs, served.current)
                nursery.start_soon(partial(_keep, made, begin_tls, ours, context, server_name=HOST))
        except* OSError:
            pass
        for each in made:
            close(each)
        return bool(made)

    assert not await shakes_hands(check_host=True)
    assert await shakes_hands(check_host=False)


async def _keep(made: list[TlsSocket], begin: object, *args: object, **more: object) -> None:
    assert callable(begin)
    made.append(await begin(*args, **more))
