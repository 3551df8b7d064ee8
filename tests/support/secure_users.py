"""Users of a secure broker with chosen rights."""

from uuid import uuid4

import trio
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from gateway.cluster.access import Access
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from tests.support.secure_kafka import Rule, SecureKafka

PASSWORD = "own-secret-41c7"
PREFIX = "groupferry-"
"""Rules on this name hold for all names that begin with it."""
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


async def new_user(secure: SecureKafka, *rules: tuple[ResourceType, str, AclOperation]) -> str:
    """A user with these rights."""
    user = f"gateway-{uuid4().hex[:8]}"
    await trio.to_thread.run_sync(secure.add_users, {user: PASSWORD})
    made = [Rule(user, *rule, pattern=PREFIXED if rule[1] == PREFIX else LITERAL) for rule in rules]
    await trio.to_thread.run_sync(secure.rule, made)
    return user


def access_of(secure: SecureKafka, user: str) -> Access:
    """What a connection of this user needs."""
    tls = certificates.for_brokers(CertificateFiles(ca=secure.authority.ca), check_host=True)
    credentials = Credentials(mechanism="SCRAM-SHA-256", username=user, password=Secret(PASSWORD))
    return Access(tls=tls, credentials=credentials)
