"""A real broker as in production: TLS, SASL with each mechanism, and ACLs.

Its certificates are those of an authority made for the run. The plain listener is for the broker
itself and for the tests' own preparations: any client that connects there may do everything.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from gateway.transport.certificates import CertificateFiles
from tests.support.certificate_authority import CertificateAuthority
from tests.support.installs import HEAVY, one_at_a_time
from tests.support.kafka_broker import TOPIC, KafkaCluster
from tests.support.ports import HOST, free_port
from tests.support.releases import NEWEST

Address = tuple[str, int]

USERS: Mapping[str, str] = {
    "gateway": "gateway-secret-8d1f",
    "alice": "alice-secret-77c2",
    "bob": "bob-secret-e03a",
}
"""The passwords of the users, with PLAIN and both SCRAM mechanisms."""
TIMEOUT_S = 20
ITERATIONS = 4096
_MODULES = "org.apache.kafka.common.security"


A = TypeVar("A", AclBinding, AclBindingFilter)


class Rule(NamedTuple):
    """What a user may do, or may not."""

    user: str
    kind: ResourceType
    name: str
    operation: AclOperation
    permission: AclPermissionType = AclPermissionType.ALLOW
    pattern: ResourcePatternType = ResourcePatternType.LITERAL

    def as_acl(self, kind: type[A]) -> A:
        """The rule as an ACL, or as the filter that finds it."""
        user = f"User:{self.user}"
        return kind(self.kind, self.name, self.pattern, user, "*", self.operation, self.permission)


class SecureKafka:
    """A running cluster of one broker."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority.in_folder(folder / "certificates")
        broker = self.authority.issue("broker", HOST, "localhost")
        ports = {name: free_port() for name in ("SSL", "MTLS", "SASL_SSL")}
        self.ssl, self.mtls, self.sasl_ssl = ((HOST, port) for port in ports.values())
        of_broker = {
            "listeners": ",".join(f"{name}://{HOST}:{ports[name]}" for name in ports),
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **_jaas(),
        }
        self.cluster = KafkaCluster(
            NEWEST, folder / "nodes", 1, _settings(broker), of_brokers=[of_broker]
        )

    @property
    def plain(self) -> Address:
        """The listener without TLS and SASL, for preparations."""
        (address,) = self.cluster.addresses
        return address

    def admin(self) -> AdminClient:
        """A client that may do everything."""
        host, port = self.plain
        return AdminClient({"bootstrap.servers": f"{host}:{port}"})

    async def start(self) -> None:
        await self.cluster.start()
        both = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        await trio.to_thread.run_sync(self._make_users, USERS, both)
        await trio.to_thread.run_sync(self._allow)

    def add_users(self, passwords: Mapping[str, str]) -> None:
        """Create users with SCRAM, who have no rights."""
        self._make_users(passwords, (ScramMechanism.SCRAM_SHA_256,))

    def rule(self, rules: Iterable[Rule]) -> None:
        """Add ACLs, and wait until the broker follows them."""
        allow = AclPermissionType.ALLOW
        last = Rule("nobody", ResourceType.TOPIC, f"last-{uuid4().hex}", AclOperation.READ, allow)
        admin = self.admin()
        for made in admin.create_acls(
            [rule.as_acl(AclBinding) for rule in (*rules, last)]
        ).values():
            made.result(TIMEOUT_S)
        while not admin.describe_acls(last.as_acl(AclBindingFilter)).result(TIMEOUT_S):
            pass

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until the broker shows it no more."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(TIMEOUT_S)
        while name in admin.list_topics(timeout=TIMEOUT_S).topics:
            pass

    def _allow(self) -> None:
        """Alice may use the topic and any group, the gateway what its documentation says, and bob
        nothing."""
        topic, group = ResourceType.TOPIC, ResourceType.GROUP
        self.rule(
            [
                Rule("alice", topic, TOPIC, AclOperation.ALL),
                Rule("alice", group, "*", AclOperation.READ),
                Rule("gateway", topic, "*", AclOperation.DESCRIBE),
                Rule("gateway", group, "*", AclOperation.READ),
            ]
        )

    def _make_users(
        self, passwords: Mapping[str, str], mechanisms: Iterable[ScramMechanism]
    ) -> None:
        admin = self.admin()
        for mechanism in mechanisms:  # a request may name a user only once
            info = ScramCredentialInfo(mechanism, ITERATIONS)
            wanted: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(user, info, password.encode())
                for user, password in passwords.items()
            ]
            made: dict[str, Any] = admin.alter_user_scram_credentials(wanted)
            for change in made.values():
                change.result(TIMEOUT_S)


@contextmanager
def running_secure_kafka() -> Iterator[SecureKafka]:
    with tempfile.TemporaryDirectory(prefix="groupferry-secure-kafka-") as folder:
        (Path(folder) / "nodes").mkdir()
        secure = SecureKafka(Path(folder))
        try:
            with one_at_a_time(HEAVY):
                trio.run(secure.start)
            yield secure
        finally:
            secure.cluster.kill_now()


def _settings(broker: CertificateFiles) -> dict[str, object]:
    return {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "SSL:SSL,MTLS:SSL,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": _keystore(broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": broker.ca,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def _keystore(files: CertificateFiles) -> Path:
    """One file with key and certificate, as Kafka wants it."""
    assert files.cert is not None
    assert files.key is not None
    both = files.cert.with_suffix(".keystore.pem")
    both.write_bytes(files.key.read_bytes() + files.cert.read_bytes())
    return both


def _jaas() -> dict[str, str]:
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    bearer = 'unsecuredLoginStringClaim_sub="broker"'
    configs = {
        "plain": f"{_MODULES}.plain.PlainLoginModule required {users};",
        "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required {bearer};",
    }
    return {f"listener.name.sasl_ssl.{name}.sasl.jaas.config": configs[name] for name in configs}
