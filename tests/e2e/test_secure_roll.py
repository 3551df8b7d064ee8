"""Clients roll over SASL_SSL, SCRAM and ACLs, while the gateway's certificate is replaced."""

import os
import shutil
import signal
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from gateway.addresses import Address
from gateway.demo.borrowed_cluster import borrow_cluster
from gateway.transport.certificates import CertificateFiles
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import PARTITIONS, GroupStage
from tests.support.ports import HOST
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import serving
from tests.support.token_server import token_server
from tests.support.until import until, until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

LIMIT_S = 240
USER, PASSWORD = "alice", USERS["alice"]
NATIVE = Client(library="librdkafka", protocol="consumer")
Pair = Mapping[str, tuple[Client, Client]]
"""Two members by name, with the client of each before the roll and after it."""
IN_CI: Pair = {
    "librdkafka": (Client(library="librdkafka"), NATIVE),
    "java": (Client(library="java"), Client(library="java", protocol="consumer")),
}
OTHERS: Pair = {
    "kafkajs": (Client(library="kafkajs", assignor="roundrobin"), NATIVE),
    "franz-go": (
        Client(library="franz-go", assignor="roundrobin"),
        Client(library="franz-go", protocol="consumer"),
    ),
}
TOKEN_S = 8
WITH_TOKENS: Pair = {
    "one": (Client(library="librdkafka"), NATIVE),
    "two": (Client(library="librdkafka"), NATIVE),
}
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def settings_of(secure: SecureKafka) -> Mapping[str, Mapping[str, str]]:
    """What each library needs to connect as alice."""
    short = {"ca": f"{secure.authority.ca}", "username": USER, "password": PASSWORD}
    both = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}
    return {
        "kafkajs": short,
        "franz-go": short,
        "librdkafka": {
            **both,
            "ssl.ca.location": f"{secure.authority.ca}",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        },
        "java": {
            **both,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{secure.authority.ca}",
            "sasl.jaas.config": f'{LOGIN} username="{USER}" password="{PASSWORD}";',
        },
    }


async def wait_until_shared(stage: GroupStage) -> None:
    """Wait until each member owns partitions, each partition has one owner, and records arrive."""

    def is_shared() -> bool:
        dead = [
            member.child.fate for member in stage.members.values() if member.child.ended.is_set()
        ]
        assert not dead, dead
        owners = stage.ledger.owners()
        is_split = len(owners) == PARTITIONS and all(len(owner) == 1 for owner in owners.values())
        return is_split and set().union(*owners.values()) == set(stage.members)

    await until(is_shared)
    await stage.progress()


async def shown_certificate(address: tuple[str, int], trusted: ssl.SSLContext) -> bytes:
    """The certificate that the gateway shows to a new connection."""
    tcp = await trio.open_tcp_stream(*address)
    async with trio.SSLStream(tcp, trusted, server_hostname=HOST) as stream:
        await stream.do_handshake()
        shown: bytes = stream.getpeercert(binary_form=True)
        return shown


def settings_with_tokens(secure: SecureKafka, url: str) -> Mapping[str, Mapping[str, str]]:
    """The settings of each library, with bearer tokens."""
    return {
        "librdkafka": {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "ssl.ca.location": f"{secure.authority.ca}",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.id": USER,
            "sasl.oauthbearer.client.secret": PASSWORD,
        }
    }


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(IN_CI, id="librdkafka and Java"),
        pytest.param(OTHERS, id="kafkajs and franz-go", marks=pytest.mark.matrix),
    ],
)
async def test_clients_roll_with_tls_scram_and_acls(
    secure_kafka: SecureKafka, tmp_path: Path, pair: Pair
) -> None:
    """The clients roll to the new protocol and back, with a new certificate in between. No record
    is lost, and no partition has two owners."""
    await roll(secure_kafka, tmp_path, pair, settings_of(secure_kafka))


async def test_clients_roll_while_their_tokens_expire(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """Each connection authenticates again every few seconds (KIP-368), and the clients do not
    notice."""
    with token_server() as server:
        server.user, server.lifetime_s = USER, TOKEN_S
        started_s = trio.current_time()
        settings = settings_with_tokens(secure_kafka, server.url)
        await roll(secure_kafka, tmp_path, WITH_TOKENS, settings)
        assert len(server.asked) > (trio.current_time() - started_s) / TOKEN_S / 2


async def roll(
    secure_kafka: SecureKafka,
    tmp_path: Path,
    pair: Pair,
    settings_by_library: Mapping[str, Mapping[str, str]],
) -> None:
    """Roll both members to the new protocol and back, with a new certificate after each step."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    password = secrets / "password"
    password.write_text(USERS["gateway"])
    listener = secure_kafka.authority.issue("rolled", HOST)
    assert listener.cert is not None
    assert listener.key is not None
    security = {}
    for library, settings in settings_by_library.items():
        security[library] = secrets / library
        lines = [f"{name}={value}" for name, value in settings.items()]
        security[library].write_text("\n".join(lines))
    host, port = secure_kafka.sasl_ssl
    flags = (
        "--upstream-security-protocol=sasl_ssl",
        f"--upstream-tls-ca={secure_kafka.authority.ca}",
        "--upstream-sasl-mechanism=SCRAM-SHA-256",
        "--upstream-sasl-username=gateway",
        f"--upstream-sasl-password-file={password}",
        f"--tls-cert={listener.cert}",
        f"--tls-key={listener.key}",
    )
    with trio.fail_after(LIMIT_S):
        async with (
            borrow_cluster(
                [Address(*secure_kafka.plain)], fresh_group("secure"), PARTITIONS
            ) as upstream,
            trio.open_nursery() as nursery,
        ):
            rule = Rule(USER, ResourceType.TOPIC, upstream.topic, AclOperation.READ)
            await trio.to_thread.run_sync(secure_kafka.rule, [rule])
            async with serving(f"{host}:{port}", tmp_path / "state", *flags) as gateway:
                stage = GroupStage(nursery, upstream, gateway)
                await stage.produce(beside=True)

                async def join(name: str, client: Client) -> None:
                    await stage.join(name, client, f"--security={security[client.library]}")

                for name, (classic, _) in pair.items():
                    await join(name, classic)
                await wait_until_shared(stage)
                for name, (_, native) in pair.items():
                    await stage.leave(name)
                    await join(name, native)
                    await wait_until_shared(stage)
                    await replace_certificate(secure_kafka, gateway.pid, gateway.address, listener)
                for name, (classic, _) in pair.items():
                    await stage.leave(name)
                    await join(name, classic)
                    await wait_until_shared(stage)
                assert stage.conversions() == ["classic->consumer", "consumer->classic"]
                if "java" in pair:  # which introduces itself once it has authenticated
                    seen = {event["software_name"] for event in gateway.events("client_seen")}
                    assert "apache-kafka-java" in seen
                await stage.end()
                nursery.cancel_scope.cancel()


async def replace_certificate(
    secure: SecureKafka, pid: int, address: tuple[str, int], files: CertificateFiles
) -> None:
    """Put another certificate in place, and wait until new connections see it."""
    assert files.cert is not None
    assert files.key is not None
    trusted = secure.authority.trusting()
    before = await shown_certificate(address, trusted)
    renewed = secure.authority.issue("renewed", HOST)
    assert renewed.cert is not None
    assert renewed.key is not None
    shutil.copy(renewed.key, files.key)
    shutil.copy(renewed.cert, files.cert)
    os.kill(pid, signal.SIGHUP)
    await until_answered(lambda: shown_certificate(address, trusted), lambda shown: shown != before)
