"""The gateway's own connection to a broker: versions, limits, and clear errors."""

import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from gateway.cluster import broker_connection
from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamClosed, UpstreamError, UpstreamRefused
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.transport.tls import TlsSocket
from kafka_codecs import decode
from kafka_codecs.api_versions import ApiVersionsResponse, SupportedFeatureKey
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.certificate_authority import CertificateAuthority
from tests.support.fake_broker import KAFKA_3, FakeBroker, answer, answer_bytes, running_fake_broker
from tests.support.mock_cluster import running_mock_cluster
from tests.support.tls_pair import tls_pair
from tests.support.wire import Wire

ASK = MetadataRequest(topics=())


@asynccontextmanager
async def answering(bytes_sent: bytes) -> AsyncIterator[tuple[str, int]]:
    """A port that answers any bytes with these, then closes."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(bytes_sent)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), serve, 0)
        yield "127.0.0.1", listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_versions_are_requested_again_after_a_malformed_error_35() -> None:
    """The mock cluster's error is malformed, so only its code counts. The gateway then uses v0."""
    async with running_mock_cluster(1) as cluster:
        async with await BrokerConnection.open(*cluster.bootstrap[0]) as connection:
            assert connection.versions[ApiKey.FETCH] == (0, 16)
            answer = await connection.ask(ASK)
            assert [(broker.host, broker.port) for broker in answer.brokers] == cluster.bootstrap


@pytest.mark.parametrize("limit", [0, broker_connection.DECODED_AT_ONCE_BYTES_MAX])
async def test_a_large_answer_is_decoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """The result is the same, and so is the error for a malformed answer."""
    monkeypatch.setattr(broker_connection, "DECODED_AT_ONCE_BYTES_MAX", limit)

    async def answer_malformed(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        await answer_bytes(wire, header, b"\xff" * 40)

    async with running_fake_broker(FakeBroker()) as broker:
        async with await BrokerConnection.open(*broker.address) as connection:
            assert (await connection.ask(ASK)).cluster_id == "fake"
            broker.handlers[ApiKey.METADATA] = answer_malformed
            with pytest.raises(UpstreamError, match="malformed answer"):
                await connection.ask(ASK)
            assert connection.closed


async def test_the_highest_common_version_is_used() -> None:
    """The caller may choose another."""
    async with running_fake_broker(FakeBroker()) as broker:
        async with await BrokerConnection.open(*broker.address) as connection:
            await connection.ask(ASK)
            await connection.ask(ASK, 4)
            with pytest.raises(UpstreamError, match="has no version of LEAVE_GROUP"):
                connection.highest_version(ApiKey.LEAVE_GROUP)
    assert [header.api_version for header in broker.seen] == [4, 3, 12, 4]
    assert broker.software[0][0] == "groupferry"


@pytest.mark.parametrize("version", [3, 4])
async def test_features_that_begin_at_level_0_are_received(version: int) -> None:
    """Most features of Kafka 4 do, and brokers hide them in older versions."""
    feature = SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2)
    broker = FakeBroker(
        versions={**KAFKA_3, ApiKey.API_VERSIONS: (0, version)},
        features=ApiVersionsResponse(supported_features=(feature,)),
    )
    async with running_fake_broker(broker):
        async with await BrokerConnection.open(*broker.address) as connection:
            assert connection.api_versions.supported_features == ((feature,) if version > 3 else ())
            assert connection.versions[ApiKey.API_VERSIONS] == (0, version)


async def test_concurrent_tasks_get_their_own_answers() -> None:
    """Requests are sent one after the other."""

    async def answer_group(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await trio.lowlevel.checkpoint()
        await answer_bytes(wire, header, b"\0\0\0\0" + struct.pack(">h", body[1]) + b"\0")

    async with running_fake_broker(FakeBroker(handlers={ApiKey.HEARTBEAT: answer_group})) as broker:
        async with await BrokerConnection.open(*broker.address) as connection:

            async def ask(length: int) -> None:
                message = HeartbeatRequest(group_id="g" * length, generation_id=1, member_id="m")
                answer = await connection.ask(message)
                assert answer.error_code == ord("g")

            async with trio.open_nursery() as nursery:
                for length in range(1, 20):
                    nursery.start_soon(ask, length)


async def test_a_refused_connection_is_reported_in_one_line() -> None:
    """The line has the address and the system's reason."""
    async with answering(b"") as address:
        pass
    with pytest.raises(UpstreamError, match=r"cannot connect to 127\.0\.0\.1:\d+: Conn.*refused"):
        await BrokerConnection.open(*address)


async def test_an_unknown_host_is_reported_in_one_line() -> None:
    """The line has the resolver's reason."""
    with pytest.raises(UpstreamError, match=r"cannot connect to nobody\.invalid:9092: [A-Z]"):
        await BrokerConnection.open("nobody.invalid", 9092)


async def test_a_name_that_no_host_can_have_is_reported_in_one_line() -> None:
    """The cluster may have named it."""
    with pytest.raises(UpstreamError, match=r"cannot connect to a\.\.b:9092: no host"):
        await BrokerConnection.open("a..b", 9092)


@pytest.mark.parametrize(
    ("sent", "error", "words"),
    [
        (b"", UpstreamRefused, "TLS"),
        (b"\x15\x03\x03\x00\x02\x02\x50", UpstreamRefused, "wants TLS"),
        (struct.pack(">i", -1), UpstreamError, "is not a Kafka broker"),
        (struct.pack(">i", 2**31 - 1), UpstreamError, "is not a Kafka broker"),
        (struct.pack(">ii", 6, 99) + b"\0\0", UpstreamError, "malformed"),
        (struct.pack(">ii", 6, 0) + b"\0\0", UpstreamError, "malformed"),
        (struct.pack(">iihi", 10, 0, 58, 0), UpstreamError, "malformed"),
        (b"HTTP/1.1 400 Bad Request\r\n", UpstreamError, "is not a Kafka broker"),
    ],
)
async def test_a_port_of_another_protocol_is_recognised(
    sent: bytes, error: type[UpstreamError], words: str
) -> None:
    """TLS is named. Nothing is allocated for an impossible size."""
    async with answering(sent) as address:
        with pytest.raises(error, match=words) as caught:
            await BrokerConnection.open(*address)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


async def _close(wire: Wire, header: RequestHeader, body: bytes) -> None:
    raise EOFError


async def _garbage(wire: Wire, header: RequestHeader, body: bytes) -> None:
    await answer_bytes(wire, header, b"\xff" * 20)


async def _other_id(wire: Wire, header: RequestHeader, body: bytes) -> None:
    await wire.send(struct.pack(">iib", 5, header.correlation_id + 1, 0))


@pytest.mark.parametrize(
    ("handler", "error", "words"),
    [
        (_close, UpstreamClosed, "closed the connection at METADATA"),
        (_garbage, UpstreamError, "malformed"),
        (_other_id, UpstreamError, "malformed"),
    ],
)
async def test_a_failed_connection_is_closed(
    handler: Callable[[Wire, RequestHeader, bytes], Awaitable[None]],
    error: type[UpstreamError],
    words: str,
) -> None:
    """Its next bytes could belong to any request."""
    async with running_fake_broker(FakeBroker(handlers={ApiKey.METADATA: handler})) as broker:
        async with await BrokerConnection.open(*broker.address) as connection:
            with pytest.raises(error, match=words):
                await connection.ask(ASK)
            assert connection.closed
            with pytest.raises(UpstreamError):
                await connection.ask(ASK)


class _Sasl:
    """A broker's side of SASL PLAIN, with sessions of ten seconds."""

    def __init__(self, broker: FakeBroker) -> None:
        self.answer = SaslAuthenticateResponse(session_lifetime_ms=10_000)
        self.mechanisms: tuple[str, ...] = ("PLAIN",)
        broker.versions = {
            **KAFKA_3,
            ApiKey.SASL_HANDSHAKE: (0, 1),
            ApiKey.SASL_AUTHENTICATE: (0, 2),
        }
        broker.handlers |= {
            ApiKey.SASL_HANDSHAKE: self.shake_hands,
            ApiKey.SASL_AUTHENTICATE: self.authenticate,
        }

    async def shake_hands(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        wanted = decode(SaslHandshakeRequest, body, header.api_version).mechanism
        error_code = 0 if wanted in self.mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        response = SaslHandshakeResponse(error_code=error_code, mechanisms=self.mechanisms)
        await answer(wire, header, response)

    async def authenticate(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        assert decode(SaslAuthenticateRequest, body, header.api_version).auth_bytes == b"\0me\0pw"
        await answer(wire, header, self.answer)


ME = Access(credentials=Credentials(mechanism="PLAIN", username="me", password=Secret("pw")))


async def test_a_session_is_renewed_before_its_end(autojump_clock: MockClock) -> None:
    """Requests that are sent together wait for the one renewal (KIP-368)."""
    broker = FakeBroker()
    _Sasl(broker)
    async with running_fake_broker(broker):
        async with await BrokerConnection.open(*broker.address, access=ME) as connection:
            for pause_s in (7.9, 0.2, 7.7):
                await trio.sleep(pause_s)
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(connection.ask, ASK)
    keys = [ApiKey(header.api_key) for header in broker.seen]
    sasl, asked = [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE], [ApiKey.METADATA] * 3
    renewals = keys[keys.index(ApiKey.SASL_HANDSHAKE) :]
    assert renewals == [*sasl, *asked, *sasl, *asked, *asked]


async def test_refused_credentials_are_reported_without_the_password() -> None:
    """The line names the user, the mechanism and the broker's reason."""
    broker = FakeBroker()
    sasl = _Sasl(broker)
    sasl.answer = SaslAuthenticateResponse(error_code=58, error_message="not you")
    async with running_fake_broker(broker):
        with pytest.raises(UpstreamRefused, match="refuses user me with PLAIN: not you") as seen:
            await BrokerConnection.open(*broker.address, access=ME)
        assert "pw" not in str(seen.value)
        sasl.mechanisms = ("GSSAPI", "OAUTHBEARER")
        with pytest.raises(UpstreamRefused, match="no mechanism PLAIN, but GSSAPI, OAUTHBEARER"):
            await BrokerConnection.open(*broker.address, access=ME)


async def test_a_silent_broker_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit has a name."""
    monkeypatch.setattr(broker_connection, "REQUEST_TIMEOUT_S", 0.05)

    async def sleep(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await trio.sleep_forever()

    async with running_fake_broker(FakeBroker(handlers={ApiKey.METADATA: sleep})) as broker:
        async with await BrokerConnection.open(*broker.address) as connection:
            with pytest.raises(UpstreamError, match=r"did not answer METADATA in 0\.05 s"):
                await connection.ask(ASK)
            assert connection.closed


async def test_a_broker_that_dies_in_the_middle_of_tls_has_closed_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS was fine, so the error says nothing about it, and a retry may help."""
    authority = CertificateAuthority.in_folder(tmp_path)

    def send(_: object, __: object) -> int:
        raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol")

    async with tls_pair(authority, authority.trusting()) as (ours, _theirs):
        monkeypatch.setattr(TlsSocket, "send", send)
        connection = BrokerConnection(ours, "kafka:9093", "groupferry")
        with pytest.raises(UpstreamClosed, match=r"^kafka:9093 closed the connection at METADATA$"):
            await connection.ask(ASK, 4)
