"""A gateway in front of a real broker with TLS, SASL and ACLs."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.librdkafka import client_config
from gateway.cluster.sasl import Credentials, Mechanism, Secret
from gateway.error_groups import first_of
from gateway.security import Security
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from kafka_codecs.metadata import MetadataRequest
from tests.support.gateway import whole_gateway
from tests.support.kafka_broker import TOPIC
from tests.support.secure_kafka import USERS, SecureKafka

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
    """It names the port of the listener that was asked."""
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


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_refused(secure_kafka: SecureKafka, mechanism: Mechanism) -> None:
    """In the broker's own words."""
    wrong = Credentials(mechanism=mechanism, username="gateway", password=Secret("wrong-secret"))
    access = replace(sasl(secure_kafka, mechanism, "gateway"), credentials=wrong)
    why = await why_refused(secure_kafka, secure_kafka.sasl_ssl, access)
    assert why.startswith(f"it refuses user gateway with {mechanism}: Authentication failed")
    assert "wrong-secret" not in why


async def test_a_cluster_that_wants_clients_certificates_is_refused(
    secure_kafka: SecureKafka,
) -> None:
    """The gateway could only show its own, and clients would have its rights."""
    security = Security(
        own=tls(secure_kafka.authority.issue("gateway")),
        of_clients=tls(CertificateFiles(ca=secure_kafka.authority.ca)),
    )
    with pytest.raises(BaseExceptionGroup) as caught:
        async with whole_gateway([secure_kafka.mtls], security=security):
            pass
    assert "use a listener of the cluster with SASL" in str(first_of(caught.value))


async def test_a_group_works_over_tls_to_the_cluster(secure_kafka: SecureKafka) -> None:
    """Its anchor, its commits and long records pass through TLS."""
    access = tls(CertificateFiles(ca=secure_kafka.authority.ca))
    security = Security(own=access, of_clients=access)
    async with whole_gateway([secure_kafka.ssl], security=security) as gateway:
        client = {"bootstrap.servers": gateway.bootstrap_servers}
        await trio.to_thread.run_sync(produce, client, LONG)
        assert await trio.to_thread.run_sync(consume, client, "over-tls") == LONG


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
