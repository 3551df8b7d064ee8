"""Connections with TLS behave as plain sockets do."""

import contextlib
import socket
import ssl
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.transport import certificates
from gateway.transport.sockets import Transport, close, receive_some, send_all
from gateway.transport.tls import (
    PIECE_BYTES_MAX,
    RECORDS_PER_RECEIVE,
    UNSENT_BYTES_MAX,
    TlsSocket,
    begin_tls,
)
from tests.support.certificate_authority import CertificateAuthority
from tests.support.tls_pair import HOST, say_goodbye, tls_pair

LONG = bytes(range(256)) * 16 * 1024  # 4 MiB, more than the sockets' buffers hold


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """Signs every certificate here."""
    return CertificateAuthority.in_folder(tmp_path_factory.mktemp("authority"))


async def receive_bytes(sock: Transport, count: int) -> bytes:
    """Exactly this many bytes."""
    data = b""
    while len(data) < count:
        data += await receive_some(sock, count - len(data))
    return data


def fill_socket(sock: TlsSocket) -> int:
    """Send until the socket takes no more. The number of bytes taken."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            count += sock.send(LONG)
    return count


async def test_a_long_message_arrives_while_its_receiver_is_slow(
    authority: CertificateAuthority,
) -> None:
    """The sender waits as soon as the socket is full."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_all, client, LONG)
            await trio.testing.wait_all_tasks_blocked()
            assert await receive_bytes(server, len(LONG)) == LONG


async def test_a_receive_takes_all_records_that_are_here(authority: CertificateAuthority) -> None:
    """A short receive therefore means that nothing more is here."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        for part in (b"a" * 20_000, b"b" * 20_000):
            await send_all(client, part)
        view = memoryview(bytearray(100_000))
        assert server.recv_into(view) == 40_000
        with pytest.raises(BlockingIOError):
            server.recv_into(view)


@pytest.mark.parametrize("room", [1, 7_000, 16_384, 300_000])
async def test_records_arrive_whatever_the_room_and_however_they_are_cut(
    authority: CertificateAuthority, room: int
) -> None:
    """Ciphertext that was not asked for waits, and a part of a record does, too."""
    sent = bytes(range(251)) * 300
    async with tls_pair(authority, authority.trusting()) as (client, server):
        taken = client._call(client._encrypt, memoryview(sent)[:PIECE_BYTES_MAX])
        ciphertext, client._unsent = client._unsent, b""
        view, received = memoryview(bytearray(room)), b""
        for start in range(0, len(ciphertext), 5_000):
            assert client._sock.send(ciphertext[start : start + 5_000]) > 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    received += view[: server.recv_into(view)]
        assert received == sent[:taken]


async def test_connections_wait_for_slow_peers_side_by_side(
    authority: CertificateAuthority,
) -> None:
    """The connections share OpenSSL's memory, but no byte goes to another connection."""
    count = 3
    async with contextlib.AsyncExitStack() as stack:
        pairs = [
            await stack.enter_async_context(tls_pair(authority, authority.trusting()))
            for _ in range(count)
        ]
        messages = [bytes([number]) * len(LONG) for number in range(count)]
        async with trio.open_nursery() as nursery:
            for (client, _), message in zip(pairs, messages, strict=True):
                nursery.start_soon(send_all, client, message)
            await trio.testing.wait_all_tasks_blocked()
            left = [len(message) for message in messages]
            while any(left):
                for number, (_, server) in enumerate(pairs):
                    received = await receive_some(server, left[number])
                    assert received == messages[number][: len(received)]
                    left[number] -= len(received)


async def test_what_counts_as_sent_has_left(authority: CertificateAuthority) -> None:
    """The rest of an answer would not be sent while the gateway waits."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        sent = fill_socket(client)
        assert len(client._unsent) <= UNSENT_BYTES_MAX
        assert len(await receive_bytes(server, sent)) == sent
        view = memoryview(bytearray(PIECE_BYTES_MAX))
        with contextlib.suppress(BlockingIOError):
            while True:
                server.recv_into(view)  # the part of the piece that has left
        assert client.send(LONG) == PIECE_BYTES_MAX


async def test_the_first_bytes_may_come_with_the_handshake(
    authority: CertificateAuthority,
) -> None:
    """No event will report them."""
    ours, theirs = socket.socketpair()
    files = replace(authority.issue("server", HOST), ca=None)
    arrived, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.trusting().wrap_bio(arrived, departing, server_hostname=HOST)
    made: list[TlsSocket] = []
    async with trio.open_nursery() as nursery:
        served = certificates.for_clients(files).current
        nursery.start_soon(partial(_keep, made, begin_tls, theirs, served))
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        ours.send(departing.read())
        await trio.testing.wait_all_tasks_blocked()
        arrived.write(ours.recv(100_000))
        client.do_handshake()
        client.write(b"first")
        ours.send(departing.read())
    assert await receive_some(made[0], 100) == b"first"
    close(made[0])
    ours.close()


async def test_a_forged_record_ends_only_its_connection(authority: CertificateAuthority) -> None:
    """The peer gets an alert, and the other connection none of the forged bytes."""
    trusting = authority.trusting()
    async with (
        tls_pair(authority, trusting) as (forger, server),
        tls_pair(authority, trusting) as (other, other_server),
    ):
        forger._sock.send(b"\x17\x03\x03\x00\x20" + bytes(32) + b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ssl.SSLError):
            await receive_some(server, 100)
        close(server)
        with pytest.raises(ssl.SSLError, match=r"ALERT|alert"):
            await receive_some(forger, 100)
        await send_all(other, b"undisturbed")
        assert await receive_bytes(other_server, 11) == b"undisturbed"


async def test_a_peer_cannot_make_tls_answer_without_end(authority: CertificateAuthority) -> None:
    """What TLS itself has to say waits in bounded memory for a peer that does not listen."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        fill_socket(server)
        await send_all(client, b"!")
        server._unsent += bytes(UNSENT_BYTES_MAX)
        with pytest.raises(ConnectionAbortedError):
            server.recv_into(memoryview(bytearray(100)))


async def test_a_receive_takes_a_limited_number_of_records(authority: CertificateAuthority) -> None:
    """The receive says that there are more, though no byte of them is left in the socket."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        sent = bytes(index % 256 for index in range(3 * RECORDS_PER_RECEIVE + 5))
        for index in range(len(sent)):
            client._call(client._encrypt, memoryview(sent)[index : index + 1])
        client._flush()
        view, data, has_more = memoryview(bytearray(1_000)), b"", []
        while len(data) < len(sent):
            count = server.recv_into(view)
            assert count <= 2 * RECORDS_PER_RECEIVE  # of two pieces of ciphertext
            data += view[:count]
            has_more.append(server.has_more)
        assert data == sent
        assert has_more == [*[True] * (len(has_more) - 1), False]
        with pytest.raises(BlockingIOError):
            server.recv_into(view)
        assert not server.has_more


@pytest.mark.parametrize("payload", [1, 16_384])
async def test_a_peer_cannot_hold_the_thread_with_records_that_carry_hardly_any_data(
    authority: CertificateAuthority, payload: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single receive would take them as long as they come, if they had none and did not count.
    Full records may come for ever."""
    monkeypatch.setattr("gateway.transport.tls.RECORDS_PER_RECEIVE", 1_000_000)
    async with tls_pair(authority, authority.trusting()) as (client, server):
        endless = _Endless(client, b"!" * payload, like=server._sock)
        server._sock = endless  # type: ignore[assignment]
        view = memoryview(bytearray(300_000))
        if payload > 1:
            assert server.recv_into(view) == len(view)
        else:
            with pytest.raises(ConnectionAbortedError):
                server.recv_into(view)
        assert endless.taken < 2 * len(view)


async def test_the_end_after_the_last_bytes_is_seen_without_a_wait(
    authority: CertificateAuthority,
) -> None:
    """A peer may say goodbye in TLS and keep the socket open, so that no byte follows."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        await send_all(client, b"last")
        say_goodbye(client)
        assert await receive_some(server, 100) == b"last"
        with trio.fail_after(5):
            await trio.lowlevel.wait_readable(server)
        assert await receive_some(server, 100) == b""


async def test_a_closed_connection_ends_its_peer(authority: CertificateAuthority) -> None:
    """A plain socket behaves the same."""
    async with tls_pair(authority, authority.trusting()) as (client, server):
        close(client)
        close(client)
        assert await receive_some(server, 100) == b""


async def test_nothing_is_received_in_plain_text_after_a_shutdown(
    authority: CertificateAuthority,
) -> None:
    """Only the end of the connection is left, as with a plain socket."""
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
        await receive_bytes(server, 1)
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
    kinds = {type(error) for error in caught.value.exceptions}
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
        for connection in made:
            close(connection)
        return bool(made)

    assert not await shakes_hands(check_host=True)
    assert await shakes_hands(check_host=False)


class _Endless:
    """A socket to which the peer sends one record after another as fast as they are received."""

    def __init__(self, peer: TlsSocket, data: bytes, *, like: socket.socket) -> None:
        self._peer, self._data, self._sock = peer, data, like
        self._arrived = bytearray()
        self.taken = 0

    def recv_into(self, room: memoryview) -> int:
        while len(self._arrived) < len(room):
            self._peer._call(self._peer._encrypt, memoryview(self._data))
            self._arrived += self._peer._unsent
            self._peer._unsent = b""
        room[:] = self._arrived[: len(room)]
        del self._arrived[: len(room)]
        self.taken += len(room)
        return len(room)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


async def _keep(made: list[TlsSocket], begin: object, *args: object, **more: object) -> None:
    assert callable(begin)
    made.append(await begin(*args, **more))
