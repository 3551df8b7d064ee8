"""The start finds out what the gateway may not do, at a real broker with ACLs."""

from collections.abc import Collection
from uuid import uuid4

import pytest
import trio
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_permissions import missing_permissions, other_writers
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from tests.support.kafka_broker import TOPIC
from tests.support.secure_kafka import Rule, SecureKafka

pytestmark = pytest.mark.kafka

OWN, ID = "own-state", "own-state-0"
PASSWORD = "own-secret-41c7"


async def new_user(secure: SecureKafka, *rules: tuple[ResourceType, str, AclOperation]) -> str:
    """A user with these rights."""
    user = f"gateway-{uuid4().hex[:8]}"
    await trio.to_thread.run_sync(secure.add_users, {user: PASSWORD})
    await trio.to_thread.run_sync(secure.rule, [Rule(user, *each) for each in rules])
    return user


async def missing_to(secure: SecureKafka, user: str) -> Collection[tuple[str, str]]:
    """The operations and resources that this user lacks."""
    tls = certificates.for_brokers(CertificateFiles(ca=secure.authority.ca), check_host=True)
    credentials = Credentials(mechanism="SCRAM-SHA-256", username=user, password=Secret(PASSWORD))
    access = Access(tls=tls, credentials=credentials)
    async with await BrokerConnection.open(*secure.sasl_ssl, access=access) as connection:
        found = await missing_permissions(connection, [OWN], [ID])
    return {(each.operation, each.resource) for each in found}


async def test_each_missing_permission_is_named(secure_kafka: SecureKafka) -> None:
    """The documented ones suffice."""
    nothing = await new_user(secure_kafka)
    own = f"topic {OWN}"
    assert await missing_to(secure_kafka, nothing) == {
        ("DESCRIBE", "all topics"),
        ("READ", "all groups"),
        ("DESCRIBE", "all groups"),
        ("WRITE", f"transactional id {ID}"),
        *((each, own) for each in ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")),
    }
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    most = (
        (topic, "*", AclOperation.DESCRIBE),
        (group, "*", AclOperation.READ),
        (topic, OWN, AclOperation.WRITE),
        (topic, OWN, AclOperation.DESCRIBE_CONFIGS),
        (ResourceType.TRANSACTIONAL_ID, ID, AclOperation.WRITE),
    )
    some = await new_user(secure_kafka, *most)
    assert await missing_to(secure_kafka, some) == {("READ", own), ("CREATE", own)}
    rest = ((topic, OWN, AclOperation.READ), (topic, OWN, AclOperation.CREATE))
    everything = await new_user(secure_kafka, *most, *rest)
    assert await missing_to(secure_kafka, everything) == set()


def test_other_writers_of_a_topic_are_named(secure_kafka: SecureKafka) -> None:
    """ACLs with a prefix count as well."""
    config = client_config([secure_kafka.plain], "groupferry-test")
    assert other_writers(config, TOPIC, "User:gateway") == {"User:alice"}
    assert other_writers(config, TOPIC, "User:alice") == frozenset()
