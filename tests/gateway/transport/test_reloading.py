"""Changed certificate files are noticed while the gateway runs."""

from pathlib import Path

import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.transport.certificates import for_clients
from gateway.transport.reloading import LOOK_INTERVAL_S, check_certificate, watch_certificates
from tests.support.certificate_authority import CertificateAuthority


async def test_each_change_is_logged_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A failure too, and it changes nothing."""
    authority = CertificateAuthority.in_folder(tmp_path / "authority")
    tls = for_clients(authority.issue("gateway"))
    assert tls.files.key
    with capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_certificates, [tls])
            await trio.sleep(3 * LOOK_INTERVAL_S)
            assert lines == []
            tls.files.key.write_text("half of")
            await trio.sleep(3 * LOOK_INTERVAL_S)
            authority.issue("gateway")
            await trio.sleep(3 * LOOK_INTERVAL_S)
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in lines] == [
        "certificates_not_reloaded",
        "certificates_reloaded",
    ]
    assert f"{tls.files.key}" in lines[0]["reason"]


async def test_a_certificate_that_clients_refuse_is_told(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """At its reload as at the start. It is used all the same, because some clients do not check."""
    authority = CertificateAuthority.in_folder(tmp_path / "authority")
    tls = for_clients(authority.issue("gateway", "gateway.example"), ("gateway.example",))
    with capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            check_certificate(tls)
            nursery.start_soon(watch_certificates, [tls])
            await trio.sleep(3 * LOOK_INTERVAL_S)
            assert lines == []
            authority.issue("gateway", "other.example")
            await trio.sleep(3 * LOOK_INTERVAL_S)
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in lines] == ["certificates_reloaded", "certificate_unfit"]
    assert lines[1]["host"] == "gateway.example"
    assert "gateway.example" in lines[1]["reason"]
