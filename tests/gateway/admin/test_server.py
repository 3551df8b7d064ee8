"""Connections to the admin API."""

import ssl
from pathlib import Path

import pytest
import trio
import trustme

from gateway.admin import server
from gateway.admin.config import AdminConfig
from gateway.admin.server import serve_http
from gateway.data_path.errors import ListenError
from gateway.transport.certificates import CertificateFiles, for_clients
from tests.support.admin import HOST, admin_stage


async def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """One beyond the limit is closed at once; a place is free again when its client has gone."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    async with admin_stage() as stage:
        first = await trio.open_tcp_stream(HOST, stage.port)
        await first.send_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
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


async def test_a_client_that_does_not_read_delays_no_end() -> None:
    """It is given up, and its connection is closed when the gateway ends."""
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
    """It names the setting."""
    async with admin_stage() as stage:
        config = AdminConfig(listen=(HOST, stage.port))
        with pytest.raises(ListenError, match="admin_listen"):
            await serve_http(None, config)


async def test_garbage_ends_its_own_connection_only() -> None:
    """Others go on."""
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
