"""Connections to the admin API."""

import errno
import logging
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trustme
from structlog.testing import capture_logs

from gateway.admin import server
from gateway.admin.config import AdminConfig
from gateway.admin.server import CONNECTIONS_MAX, quiet_accept_failures, serve_http
from gateway.data_path.errors import ListenError
from gateway.transport.certificates import CertificateFiles, for_clients
from tests.support.admin import HOST, admin_stage

GET_LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def raw_answer(port: int, sent: bytes) -> bytes:
    """All that comes back until the connection ends, or falls silent."""
    stream = await trio.open_tcp_stream(HOST, port)
    got = b""
    with trio.move_on_after(0.2), suppress(trio.BrokenResourceError):
        await stream.send_all(sent)
        while data := await stream.receive_some():
            got += data
    await trio.aclose_forcefully(stream)
    return got


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTT"], ids=["silent", "half sent"])
async def test_silent_connections_do_not_keep_probes_out(sent: bytes) -> None:
    """Each new connection replaces the one that has been silent longest."""
    async with admin_stage() as stage:
        silent = []
        for _ in range(2 * CONNECTIONS_MAX):
            stream = await trio.open_tcp_stream(HOST, stage.port)
            await stream.send_all(sent)
            silent.append(stream)
        for path in ("/livez", "/readyz", "/livez"):
            assert (await stage.ask(path)).status == 200
        for stream in silent:
            await trio.aclose_forcefully(stream)


async def test_busy_connections_have_a_share_per_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """One beyond it is closed. A place is free again when its client has gone."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 2)
    async with admin_stage() as stage:
        first = await trio.open_tcp_stream(HOST, stage.port)
        await first.send_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await first.receive_some()
        second = await trio.open_tcp_stream(HOST, stage.port)
        assert await second.receive_some() == b""
        await first.aclose()
        while True:
            try:
                answer = await stage.ask("/livez")
            except OSError:
                continue
            assert answer.status == 200
            break


async def test_a_client_has_little_time_for_its_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once it has sent one, it may be silent for longer, or follow events for ever."""
    monkeypatch.setattr(server, "FIRST_REQUEST_S", 0.1)
    async with admin_stage() as stage:
        silent, half_sent, patient, following = [
            await trio.open_tcp_stream(HOST, stage.port) for _ in range(4)
        ]
        await half_sent.send_all(b"GET /livez HTT")
        await patient.send_all(GET_LIVEZ)
        await following.send_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await patient.receive_some()
        assert await following.receive_some()
        assert await silent.receive_some() == b""
        assert await half_sent.receive_some() == b""
        await patient.send_all(GET_LIVEZ)
        got = b""
        while got.count(b"HTTP/1.1 200") < 1:
            got += await patient.receive_some()
        with trio.move_on_after(0.2) as limit:
            while await following.receive_some():
                pass
        assert limit.cancelled_caught


async def test_a_websocket_is_refused_with_the_way_out() -> None:
    """The answer has the same headers as any other."""
    async with admin_stage() as stage:
        answer = await raw_answer(stage.port, UPGRADE)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"/api/events" in answer
    assert b"nosniff" in answer


@pytest.mark.parametrize(
    "sent",
    [
        GET_LIVEZ.replace(b"1.1", b"1.0"),
        GET_LIVEZ.replace(b"1.1", b"2.0"),
        GET_LIVEZ.replace(b"GET", b"TRACE"),
        GET_LIVEZ.replace(b"GET", b"CONNECT"),
        GET_LIVEZ.replace(b"GET", b"HEAD"),
        GET_LIVEZ.replace(b"GET /livez", b"OPTIONS *"),
        GET_LIVEZ.replace(b"/livez", b"http://localhost/livez"),
        GET_LIVEZ.replace(b"/livez", b"/%ff%00%0a"),
        GET_LIVEZ.replace(b"/livez", "/\u00e4".encode()),
        GET_LIVEZ.replace(b"/livez", b"/api/group?group_id=%ff%00"),
        GET_LIVEZ.replace(b"/livez", b"/api/commands/\xc3\xa4"),
        GET_LIVEZ.replace(b"Host", b"Content-Length: x\r\nHost"),
        GET_LIVEZ.replace(b"Host", b"Transfer-Encoding: gzip\r\nHost"),
        GET_LIVEZ.replace(b"Host", b"Expect: 100-continue\r\nHost"),
        GET_LIVEZ.replace(b"Host", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHost"),
        GET_LIVEZ.replace(b"Host", b"Connection: Upgrade\r\nUpgrade: h2c\r\nHost"),
        GET_LIVEZ.replace(b"Host: localhost\r\n", b""),
        UPGRADE.replace(b"13", b"99"),
        UPGRADE.replace(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""),
        UPGRADE.replace(b"GET", b"POST"),
        UPGRADE + b"\x81\x85\0\0\0\0hello",
    ],
    ids=lambda sent: sent.splitlines()[0].decode("latin-1"),
)
async def test_no_request_is_an_error_of_the_gateway(sent: bytes) -> None:
    """Whatever a client sends is answered, or its connection is closed, without a bug in the
    log."""
    async with admin_stage() as stage:
        answer = await raw_answer(stage.port, sent)
        assert not answer.startswith((b"HTTP/1.1 500", b"HTTP/1.0 500")), answer
        assert (await stage.ask("/livez")).status == 200


async def test_a_client_that_does_not_read_delays_no_end() -> None:
    """The connection of such a client is closed when the gateway ends."""
    async with admin_stage(max_groups=1_000) as stage:  # a long name counts more than once
        for letter in "abcdefgh":
            await stage.groups.native("n", group=letter * 30_000)
        deaf = await trio.open_tcp_stream(HOST, stage.port)
        await deaf.send_all(b"GET /api/groups HTTP/1.1\r\nHost: localhost\r\n\r\n" * 99)
        assert (await stage.ask("/livez")).status == 200
    # The stage has ended, although the answers were never read.


async def test_tls_is_spoken_where_it_is_configured(tmp_path: Path) -> None:
    """Plain text is then not answered."""
    authority = trustme.CA()
    made = authority.issue_cert(HOST)
    made.private_key_and_cert_chain_pem.write_to_path(tmp_path / "cert.pem")
    tls = for_clients(CertificateFiles(cert=tmp_path / "cert.pem"))
    async with admin_stage(tls=tls) as stage:
        with pytest.raises(OSError, match=r"."):
            await stage.ask("/livez")
        stage.tls = ssl.create_default_context()
        authority.configure_trust(stage.tls)
        assert (await stage.ask("/livez")).status == 200


async def test_a_port_that_is_taken_is_one_line() -> None:
    """The line names the setting."""
    async with admin_stage() as stage:
        config = AdminConfig(listen=(HOST, stage.port))
        with pytest.raises(ListenError, match="admin_listen"):
            await serve_http(None, config)


async def test_garbage_ends_its_own_connection_only() -> None:
    """Other requests continue."""
    async with admin_stage() as stage:
        for garbage in (
            b"\x16\x03\x01",
            b"GET\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nxx",
            b"\0" * 70_000,
        ):
            stream = await trio.open_tcp_stream(HOST, stage.port)
            await stream.send_all(garbage)
            await stream.send_eof()
            await stream.aclose()
        assert (await stage.ask("/livez")).status == 200


async def test_a_failed_accept_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """This holds for any number of attempts, and there is no traceback."""
    failed = OSError(errno.EMFILE, "Too many open files")
    with capture_logs() as lines, quiet_accept_failures():
        logging.getLogger("trio.serve_listeners").error("accept failed", exc_info=failed)
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("connection_not_accepted", "Too many open files")
    ]
    assert capsys.readouterr().err == ""
