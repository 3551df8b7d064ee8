"""Clients with TLS, and clients at the wrong kind of port."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.data_path.config import DataPathConfig, Limits
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.transport.certificates import CertificateFiles, for_clients
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.gateway.data_path.client_connection import HEARTBEAT, Parked
from tests.gateway.data_path.running_data_path import RunningGateway, running_gateway
from tests.support.certificate_authority import CertificateAuthority
from tests.support.fake_broker import FakeBroker, running_fake_broker
from tests.support.until import until
from tests.support.wire import Wire, make_frame, open_wire, request_frame

HOST = "gateway.example"
VERSIONS = make_frame(b"\0\x12\0\0\0\0\0\x07\xff\xff")
"""ApiVersions v0 with correlation id 7."""


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    """Signs every certificate here."""
    return CertificateAuthority.in_folder(tmp_path / "authority")


@asynccontextmanager
async def tls_gateway(
    files: CertificateFiles,
    limits: Limits | None = None,
    group_apis: GroupApis | None = None,
) -> AsyncIterator[RunningGateway]:
    """A data path that listens with TLS, in front of a fake broker."""
    config = DataPathConfig(
        listen_port=0,
        advertised_host="127.0.0.1",
        tls=for_clients(files),
        limits=limits or Limits(),
    )
    async with running_fake_broker(FakeBroker()) as broker:
        async with running_gateway(
            [broker.address], config=config, group_apis=group_apis
        ) as gateway:
            yield gateway


def without_ca(files: CertificateFiles) -> CertificateFiles:
    """No certificate is wanted of clients."""
    return replace(files, ca=None)


async def versions_over_tls(gateway: RunningGateway, context: ssl.SSLContext) -> bytes:
    """Ask for the versions with another TLS than ours. Returns the start of the answer."""
    tcp = await trio.open_tcp_stream(*gateway.address)
    async with trio.SSLStream(tcp, context, server_hostname=HOST) as stream:
        await stream.send_all(VERSIONS)
        return bytes(await stream.receive_some(8))


def distrust(address: tuple[str, int]) -> None:
    """Refuse the certificate with an alert, which trio's streams do not send."""
    context = ssl.create_default_context()
    with socket.create_connection(address) as tcp:
        context.wrap_socket(tcp, server_hostname=HOST)


async def test_a_client_with_tls_is_served(authority: CertificateAuthority) -> None:
    """The answer has its correlation id."""
    files = without_ca(authority.issue("gateway", HOST))
    async with tls_gateway(files) as gateway:
        answer = await versions_over_tls(gateway, authority.trusting())
    assert answer[4:] == b"\0\0\0\x07"


async def test_a_client_that_does_not_trust_the_certificate_is_logged(
    authority: CertificateAuthority,
) -> None:
    """The line says whose fault it is."""
    files = without_ca(authority.issue("gateway", HOST))
    async with tls_gateway(files) as gateway:
        with capture_logs() as lines:
            with pytest.raises(ssl.SSLCertVerificationError):
                await trio.to_thread.run_sync(distrust, gateway.address)
            while not lines:
                await trio.testing.wait_all_tasks_blocked(0.05)
    (line,) = lines
    assert line["event"] == "tls_handshake_failed"
    assert line["reason"].startswith("the client does not accept our certificate: ")


async def test_plain_text_at_a_tls_port_is_logged(authority: CertificateAuthority) -> None:
    """The line says what to do."""
    files = without_ca(authority.issue("gateway", HOST))
    async with tls_gateway(files) as gateway:
        with capture_logs() as lines:
            async with open_wire(gateway.address) as client:
                await client.send(VERSIONS)
                assert await client.at_end()
    (line,) = [line for line in lines if line["event"] == "bad_frame_received"]
    assert line["reason"] == (
        "plain text: this port speaks TLS, set security.protocol=SSL,"
        " or SASL_SSL if the cluster wants SASL"
    )


async def test_a_silent_client_is_given_up_and_limited(authority: CertificateAuthority) -> None:
    """A silent client costs its own address only."""
    files = without_ca(authority.issue("gateway", HOST))
    limits = Limits(max_handshakes_per_address=1, handshake_timeout_s=0.2)
    async with tls_gateway(files, limits) as gateway:
        with capture_logs() as lines:
            async with open_wire(gateway.address) as first:
                await trio.testing.wait_all_tasks_blocked(0.05)
                async with open_wire(gateway.address) as second:
                    assert await second.at_end()
                assert await first.at_end()
            assert await versions_over_tls(gateway, authority.trusting())
    refused, failed = lines
    assert (refused["event"], refused["reason"]) == (
        "connection_refused",
        "1 handshakes with this address are under way",
    )
    assert (failed["event"], failed["reason"]) == (
        "tls_handshake_failed",
        "the client is too slow",
    )


async def test_a_client_without_the_wanted_certificate_is_refused(
    authority: CertificateAuthority,
) -> None:
    """One that has it is served."""
    async with tls_gateway(authority.issue("gateway", HOST)) as gateway:
        with capture_logs() as lines:
            with pytest.raises((trio.BrokenResourceError, ssl.SSLError)):
                await versions_over_tls(gateway, authority.trusting())
            context, files = authority.trusting(), authority.issue("alice")
            assert files.cert
            context.load_cert_chain(files.cert, files.key)
            assert await versions_over_tls(gateway, context)
    (line,) = [line for line in lines if line["event"] == "tls_handshake_failed"]
    assert line["reason"] == "peer did not return a certificate"


class Subjects(GroupApis):
    """Notes the subject of each client."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []

    async def answer(self, request: GroupRequest) -> Struct:
        """A heartbeat's answer."""
        self.seen.append(request.tls_subject)
        return HeartbeatResponse()


async def test_a_group_request_carries_the_subject_of_the_certificate(
    authority: CertificateAuthority,
) -> None:
    """Events name the subject."""
    apis = Subjects()
    context, files = authority.trusting(), authority.issue("alice")
    assert files.cert
    context.load_cert_chain(files.cert, files.key)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    async with tls_gateway(authority.issue("gateway", HOST), group_apis=apis) as gateway:
        tcp = await trio.open_tcp_stream(*gateway.address)
        async with trio.SSLStream(tcp, context, server_hostname=HOST) as stream:
            await Wire(stream).ask(beat, 4)
    (subject,) = apis.seen
    assert subject is not None
    assert subject.startswith("CN=alice,")


async def test_new_connections_get_a_new_certificate(authority: CertificateAuthority) -> None:
    """Open ones continue."""
    files = without_ca(authority.issue("gateway", "old.example"))
    tls = for_clients(files)
    config = DataPathConfig(listen_port=0, advertised_host="127.0.0.1", tls=tls)
    async with running_fake_broker(FakeBroker()) as broker:
        async with running_gateway([broker.address], config=config) as gateway:
            with pytest.raises(trio.BrokenResourceError):
                await versions_over_tls(gateway, authority.trusting())
            authority.issue("gateway", HOST)
            assert tls.reload()
            assert await versions_over_tls(gateway, authority.trusting())


async def test_a_request_over_tls_ends_with_its_client(authority: CertificateAuthority) -> None:
    """Its last bytes are those of TLS, behind which the connection is closed."""
    apis = Parked()
    files = without_ca(authority.issue("gateway", HOST))
    async with tls_gateway(files, group_apis=apis) as gateway:
        tcp = await trio.open_tcp_stream(*gateway.address)
        async with trio.SSLStream(
            tcp, authority.trusting(), server_hostname=HOST, https_compatible=True
        ) as stream:
            beat = encode(HEARTBEAT, 4)
            await stream.send_all(request_frame(ApiKey.HEARTBEAT, 4, 1, beat))
            await apis.asked.wait()
        with trio.fail_after(5):
            await until(lambda: gateway.limiter.count == 0)
