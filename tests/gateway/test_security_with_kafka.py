"""A gateway in front of a real broker with TLS, SASL and ACLs."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from gateway.cluster.access import Access
from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.librdkafka import client_config
from gateway.cluster.sasl import Credentials, Mechanism
from gateway.cluster.secret import Secret
from gateway.error_groups import first_of
from gateway.security import Security
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest
from kafka_codecs.sasl_handshake import SaslHandshakeRequest
from tests.support.gateway import Gateway, whole_gateway
from tests.support.kafka_broker import TOPIC
from tests.support.ports import HOST
from tests.support.secure_kafka import USERS, SecureKafka
from tests.support.token_server import token_server, unsigned_token
from tests.support.wire import Wire, make_frame, request_frame

pytestmark = pytest.mark.kafka

LIMIT_S = 20
LONG = bytes(range(256)) * 3_000  # relayed in several TLS records, and spliced without TLS


def tls(files: CertificateFiles, *, check_host: bool = True) -> Access:
    """Access with TLS alone."""
    return Access(tls=certificates.for_brokers(files, check_host=check_host))


def sasl(secure: SecureKafka, mechanism: Mechanism, user: str) -> Access:
    """Access with TLS and a user's password."""
    password = Secret(USERS[user])
    credentials = Credentials(mechanism=mechanism, username=user, password=password)
    return replace(tls(CertificateFiles(ca=secure.authority.ca)), credentials=credentials)


async def why_refused(secure: SecureKafka, address: tuple[str, int], access: Access) -> str:
    """Why a broker is refused, without its address."""
    with pytest.raises(UpstreamRefused) as caught:
        await BrokerConnection.open(*address, access=access)
    host, port = address
    return str(caught.value).replace(f"{host}:{port}", "it")


async def test_a_broker_is_asked_over_tls(secure_kafka: SecureKafka) -> None:
    """The broker names the port of the listener that was asked."""
    access = tls(CertificateFiles(ca=secure_kafka.authority.ca))
    async with await BrokerConnection.open(*secure_kafka.ssl, access=access) as connection:
        answer = await connection.ask(MetadataRequest(topics=()))
    assert [(broker.host, broker.port) for broker in answer.brokers] == [secure_kafka.ssl]


async def test_each_mismatch_is_refused_in_one_line(secure_kafka: SecureKafka) -> None:
    """The line says what to do."""
    files = CertificateFiles(ca=secure_kafka.authority.ca)
    assert await why_refused(secure_kafka, secure_kafka.ssl, Access()) == (
        "it: it wants TLS: set upstream_security_protocol to ssl or sasl_ssl"
    )
    assert await why_refused(secure_kafka, secure_kafka.plain, tls(files)) == (
        "no TLS with it: it closed the connection; most likely it speaks plain text"
    )
    stranger = await why_refused(secure_kafka, secure_kafka.ssl, tls(CertificateFiles()))
    assert stranger.startswith("no TLS with it: its certificate is not accepted: ")
    assert stranger.endswith("; upstream_tls_ca names the authorities to trust")
    nameless = await why_refused(secure_kafka, secure_kafka.mtls, tls(files))
    assert nameless.endswith("; it wants a certificate that it knows, see upstream_tls_cert")


async def test_a_broker_that_wants_a_certificate_gets_it(secure_kafka: SecureKafka) -> None:
    """Its name is the gateway's principal, and has no rights here."""
    access = tls(secure_kafka.authority.issue("gateway"))
    async with await BrokerConnection.open(*secure_kafka.mtls, access=access) as connection:
        answer = await connection.ask(MetadataRequest(topics=None))
    assert [broker.node_id for broker in answer.brokers] == [1]
    assert answer.topics == ()


def test_librdkafka_takes_the_same_files(secure_kafka: SecureKafka) -> None:
    """For the state log and the events."""
    access = tls(secure_kafka.authority.issue("gateway"))
    admin = AdminClient(dict(client_config([secure_kafka.mtls], "groupferry-test", access)))
    assert brokers_of(admin) == {1}


def brokers_of(admin: AdminClient) -> set[int]:
    """The brokers that the client is told."""
    return set(admin.list_topics(timeout=LIMIT_S).brokers)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_the_gateway_authenticates(secure_kafka: SecureKafka, mechanism: Mechanism) -> None:
    """With its own credentials; librdkafka, for the state log and the events, with the same."""
    access = sasl(secure_kafka, mechanism, "gateway")
    async with await BrokerConnection.open(*secure_kafka.sasl_ssl, access=access) as connection:
        assert (await connection.ask(MetadataRequest(topics=()))).brokers
    admin = AdminClient(dict(client_config([secure_kafka.sasl_ssl], "groupferry-test", access)))
    assert await trio.to_thread.run_sync(brokers_of, admin) == {1}


async def test_the_gateway_authenticates_with_bearer_tokens(secure_kafka: SecureKafka) -> None:
    """The gateway gets tokens with its client id and secret; librdkafka does the same."""
    with token_server() as server:
        secret = Secret("client-secret-1f07")
        tokens = BearerTokens(url=server.url, client_id="gateway", secret=secret)
        credentials = Credentials(
            mechanism="OAUTHBEARER", username="gateway", password=secret, tokens=tokens
        )
        access = replace(sasl(secure_kafka, "PLAIN", "gateway"), credentials=credentials)
        async with await BrokerConnection.open(*secure_kafka.sasl_ssl, access=access) as connection:
            assert (await connection.ask(MetadataRequest(topics=()))).brokers
        admin = AdminClient(dict(client_config([secure_kafka.sasl_ssl], "groupferry-test", access)))
        assert await trio.to_thread.run_sync(brokers_of, admin) == {1}
        server.lifetime_s = -10
        expired = replace(credentials, tokens=replace(tokens, _until_s=0.0))
        access = replace(access, credentials=expired)
        reason = await why_refused(secure_kafka, secure_kafka.sasl_ssl, access)
        assert reason.startswith("it refuses user gateway with OAUTHBEARER: ")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_refused(secure_kafka: SecureKafka, mechanism: Mechanism) -> None:
    """In the broker's own words."""
    wrong = Credentials(mechanism=mechanism, username="gateway", password=Secret("wrong-secret"))
    access = replace(sasl(secure_kafka, mechanism, "gateway"), credentials=wrong)
    reason = await why_refused(secure_kafka, secure_kafka.sasl_ssl, access)
    assert reason.startswith(f"it refuses user gateway with {mechanism}: Authentication failed")
    assert "wrong-secret" not in reason


async def test_a_cluster_that_wants_clients_certificates_is_refused(
    secure_kafka: SecureKafka,
) -> None:
    """The gateway could only show its own, and clients would have its rights."""
    security = Security(
        own=tls(secure_kafka.authority.issue("gateway")),
        client_access=tls(CertificateFiles(ca=secure_kafka.authority.ca)),
    )
    with pytest.raises(BaseExceptionGroup) as caught:
        async with whole_gateway([secure_kafka.mtls], security=security):
            pass
    assert "use a listener of the cluster with SASL" in str(first_of(caught.value))


async def test_a_group_works_over_tls_to_the_cluster(secure_kafka: SecureKafka) -> None:
    """Its anchor, its commits and long records pass through TLS."""
    access = tls(CertificateFiles(ca=secure_kafka.authority.ca))
    security = Security(own=access, client_access=access)
    async with whole_gateway([secure_kafka.ssl], security=security) as gateway:
        client = {"bootstrap.servers": gateway.bootstrap_servers}
        await trio.to_thread.run_sync(produce, client, LONG)
        assert await trio.to_thread.run_sync(consume, client, "over-tls") == LONG


@asynccontextmanager
async def sasl_gateway(secure: SecureKafka) -> AsyncIterator[Gateway]:
    """A gateway with TLS on both sides, whose clients authenticate at the cluster."""
    own = sasl(secure, "SCRAM-SHA-256", "gateway")
    files = replace(secure.authority.issue("listener", HOST), ca=None)
    security = Security(
        own=own,
        client_access=Access(tls=own.tls),
        listening=certificates.for_clients(files),
    )
    async with whole_gateway([secure.sasl_ssl], security=security) as gateway:
        yield gateway


def client_of(
    gateway: Gateway, secure: SecureKafka, mechanism: str, user: str, password: str | None = None
) -> dict[str, str]:
    """The configuration of a client that authenticates through the gateway."""
    return {
        "bootstrap.servers": gateway.bootstrap_servers,
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": f"{secure.authority.ca}",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or USERS[user],
    }


async def test_clients_authenticate_at_the_cluster(secure_kafka: SecureKafka) -> None:
    """Members of both protocols commit with their own rights; the gateway may not write."""
    async with sasl_gateway(secure_kafka) as gateway:
        plain = client_of(gateway, secure_kafka, "PLAIN", "alice")
        await trio.to_thread.run_sync(produce, plain, LONG)
        scram = client_of(gateway, secure_kafka, "SCRAM-SHA-256", "alice")
        await trio.to_thread.run_sync(consume, scram, "with-scram")
        strong = client_of(gateway, secure_kafka, "SCRAM-SHA-512", "alice")
        await trio.to_thread.run_sync(consume, strong, "with-strong-scram", "consumer")


async def test_a_client_has_only_its_own_rights(secure_kafka: SecureKafka) -> None:
    """Bob has none, although the gateway may describe every topic."""
    async with sasl_gateway(secure_kafka) as gateway:
        admin = AdminClient({**client_of(gateway, secure_kafka, "PLAIN", "bob")})
        seen = await trio.to_thread.run_sync(partial(admin.list_topics, timeout=LIMIT_S))
    assert seen.topics == {}


async def test_refused_and_unauthenticated_clients_get_nothing(secure_kafka: SecureKafka) -> None:
    """Each attempt gets the cluster's error, and the log has no secret."""
    with capture_logs() as lines:
        async with sasl_gateway(secure_kafka) as gateway:
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                client = client_of(gateway, secure_kafka, mechanism, "alice", "wrong-8213")
                failures: list[KafkaError] = []
                consumer = Consumer({**client, "group.id": "g", "error_cb": failures.append})
                with trio.fail_after(LIMIT_S):
                    while not failures:
                        await trio.to_thread.run_sync(consumer.poll, 0.1)
                consumer.close()
                assert failures[0].code() == KafkaError._AUTHENTICATION
                assert "Authentication failed" in failures[0].str()
            async with over_tls(gateway, secure_kafka) as wire:
                await wire.send(request_frame(ApiKey.METADATA, 1, 7, b"\0\0\0\0"))
                assert await wire.at_end()
            async with over_tls(gateway, secure_kafka) as wire:
                refused = await wire.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
                assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
                assert await wire.at_end()
    reasons = [line["reason"] for line in lines if line["event"] == "request_refused"]
    assert reasons[0] == "the cluster refuses the client's credentials"
    assert "8213" not in str(lines)
    assert not any(password in str(lines) for password in USERS.values())


async def test_an_old_client_sends_raw_tokens(secure_kafka: SecureKafka) -> None:
    """SaslHandshake v0."""
    async with sasl_gateway(secure_kafka) as gateway, over_tls(gateway, secure_kafka) as wire:
        chosen = await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        assert chosen.error_code == 0
        assert "GSSAPI" not in chosen.mechanisms
        await wire.send(make_frame(f"\0alice\0{USERS['alice']}".encode()))
        assert await wire.frame() == b""
        seen = await wire.ask(MetadataRequest(topics=()), 1)
        assert seen.brokers


async def test_a_bearer_token_is_relayed_and_renewed(secure_kafka: SecureKafka) -> None:
    """The session ends with its token, and continues with the next one (KIP-368)."""
    async with sasl_gateway(secure_kafka) as gateway, over_tls(gateway, secure_kafka) as wire:
        for lifetime_s in (30, 3):
            agreed = await wire.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
            assert agreed.error_code == 0
            token = f"n,,\1auth=Bearer {unsigned_token('alice', lifetime_s)}\1\1".encode()
            accepted = await wire.ask(SaslAuthenticateRequest(auth_bytes=token), 1)
            assert accepted.error_code == 0
            assert 0 < accepted.session_lifetime_ms <= lifetime_s * 1000
            assert (await wire.ask(MetadataRequest(topics=()), 1)).brokers
        await trio.sleep(accepted.session_lifetime_ms / 1000 + 0.1)  # by the broker's clock
        await wire.send(request_frame(ApiKey.LIST_GROUPS, 0, 7, b""))
        assert await wire.at_end()


async def test_a_member_continues_with_token_after_token(secure_kafka: SecureKafka) -> None:
    """The client authenticates again before each token ends (KIP-368), and stays in its group.

    With tokens as short as these, librdkafka also begins exchanges that the broker refuses, with or
    without the gateway.
    """
    lifetime_s = 4
    fetched: list[float] = []

    def token(_config: str) -> tuple[str, float]:
        fetched.append(time.time())
        return unsigned_token("alice", lifetime_s), time.time() + lifetime_s

    def consume_on(client: Mapping[str, Any]) -> int:
        assigned: list[object] = []
        consumer = Consumer(
            {
                **client,
                "oauth_cb": token,
                "group.id": "with-tokens",
                "session.timeout.ms": 6_000,
            }
        )
        consumer.subscribe([TOPIC], on_assign=lambda *_: assigned.append(_))
        end_s = time.monotonic() + 4 * lifetime_s
        while time.monotonic() < end_s and (not assigned or len(fetched) < 4):
            consumer.poll(0.1)
        consumer.close()
        return len(assigned)

    async with sasl_gateway(secure_kafka) as gateway:
        client = client_of(gateway, secure_kafka, "OAUTHBEARER", "alice")
        del client["sasl.username"], client["sasl.password"]
        joins = await trio.to_thread.run_sync(consume_on, client)
    assert joins == 1
    assert len(fetched) >= 4


@asynccontextmanager
async def over_tls(gateway: Gateway, secure: SecureKafka) -> AsyncIterator[Wire]:
    """A connection to the gateway with TLS."""
    tcp = await trio.open_tcp_stream(*gateway.address)
    async with trio.SSLStream(tcp, secure.authority.trusting(), server_hostname=HOST) as stream:
        yield Wire(stream)


def produce(client: Mapping[str, str], value: bytes) -> None:
    """Write one record, and wait until the cluster has it."""
    producer = Producer({**client, "message.max.bytes": 2_000_000})
    failures: list[object] = []
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: failures.append(error))
    producer.flush(LIMIT_S)
    assert failures == [None]


def consume(client: Mapping[str, str], group: str, protocol: str = "classic") -> bytes:
    """Read the last record as a member of a group, and commit it."""
    consumer = Consumer(
        {
            **client,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None, message.error()
        consumer.commit(message=message, asynchronous=False)
        value = message.value()
        assert value is not None
        return value
    finally:
        consumer.close()
