"""Nothing that a run leaves behind has a secret in it."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from tests.support.kafka_broker import TOPIC
from tests.support.ports import HOST
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import PROGRAM, serving
from tests.support.token_server import token_server, unsigned_token

pytestmark = pytest.mark.kafka

LIMIT_S = 90
WRONG = "wrong-secret-8213"
STATE, EVENTS = "secrets-state", "secrets-events"


@dataclass(slots=True)
class Scene:
    """How the gateway and its clients authenticate, and what must stay secret."""

    own: Mapping[str, str]
    """The gateway's own credentials, as settings."""
    clients: Sequence[tuple[Mapping[str, Any], int]]
    """The configuration of each consumer, and how often it polls."""
    secrets: set[bytes]
    issued: Sequence[str]
    """The gateway's own tokens, which it gets during the run."""


@contextmanager
def with_passwords(folder: Path) -> Iterator[Scene]:
    """PLAIN and SCRAM."""
    password_file = folder / "password"
    password_file.write_text(USERS["gateway"])
    own = {
        "upstream_sasl_mechanism": "SCRAM-SHA-256",
        "upstream_sasl_username": "gateway",
        "upstream_sasl_password_file": f"{password_file}",
    }
    clients = [
        ({"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}, polls)
        for mechanism in ("PLAIN", "SCRAM-SHA-256")
        for password, polls in ((WRONG, 5), (USERS["alice"], 40))
    ]
    secrets = forms_of(USERS["gateway"]) | forms_of(USERS["alice"]) | forms_of(WRONG)
    yield Scene(own, clients, secrets, ())


@contextmanager
def with_tokens(folder: Path) -> Iterator[Scene]:
    """OAUTHBEARER. The broker refuses an expired token."""
    password_file = folder / "password"
    password_file.write_text(USERS["gateway"])
    expired, good = unsigned_token("alice", -60), unsigned_token("alice", 600)

    def config_of(token: str) -> Mapping[str, Any]:
        def tell(_config: str) -> tuple[str, float]:
            return token, time.time() + 600

        return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": tell}

    with token_server() as server:
        own = {
            "upstream_sasl_mechanism": "OAUTHBEARER",
            "upstream_sasl_username": "gateway",
            "upstream_sasl_password_file": f"{password_file}",
            "upstream_sasl_token_url": server.url,
        }
        clients = [(config_of(expired), 5), (config_of(good), 40)]
        secrets = forms_of(USERS["gateway"]) | forms_of_token(expired) | forms_of_token(good)
        yield Scene(own, clients, secrets, server.issued)


def consume(client: Mapping[str, Any], polls: int) -> None:
    """Consume as a member for some polls, if the cluster accepts the client."""
    consumer = Consumer({**client, "group.id": "secrets", "log_level": 0})
    consumer.subscribe([TOPIC])
    for _ in range(polls):
        consumer.poll(0.1)
    consumer.close()


def forms_of(secret: str) -> set[bytes]:
    """A secret as it is, and as PLAIN and HTTP send it."""
    plain = f"\0alice\0{secret}".encode()
    return {
        secret.encode(),
        base64.b64encode(secret.encode()),
        base64.b64encode(plain),
        base64.b64encode(f"gateway:{secret}".encode()),
    }


def forms_of_token(token: str) -> set[bytes]:
    """The claims of a token, encoded and decoded."""
    claims = token.split(".")[1]
    return {claims.encode(), base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))}


def show_state(secure: SecureKafka, own: Mapping[str, str]) -> bytes:
    """What `groupferry state` prints about the state topic, with its errors."""
    host, port = secure.sasl_ssl
    settings = {
        "upstream_security_protocol": "sasl_ssl",
        "upstream_tls_ca": f"{secure.authority.ca}",
        **own,
    }
    variables = {f"GROUPFERRY_{name.upper()}": value for name, value in settings.items()}
    flags = (f"--upstream={host}:{port}", f"--state-topic={STATE}")
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "state", *flags],
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def read_topic(secure: SecureKafka, topic: str) -> bytes:
    """All keys and values of a topic."""
    host, port = secure.plain
    config = {
        "bootstrap.servers": f"{host}:{port}",
        "group.id": "reader",
        "isolation.level": "read_uncommitted",
    }
    consumer = Consumer(config)
    try:
        partitions = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
        messages = []
        for number in partitions:
            place = TopicPartition(topic, number, OFFSET_BEGINNING)
            consumer.assign([place])
            _, high = consumer.get_watermark_offsets(place, timeout=LIMIT_S)
            at = 0
            while at < high - 1:  # the last one may be the mark of a transaction
                message = consumer.poll(2.0)
                if message is None:
                    break
                at = cast(int, message.offset())
                messages.append((message.key() or b"") + (message.value() or b""))
        return b"\n".join(messages)
    finally:
        consumer.close()


@pytest.mark.parametrize("authentication", [with_passwords, with_tokens])
async def test_no_secret_is_left_behind(
    secure_kafka: SecureKafka,
    tmp_path: Path,
    authentication: Callable[[Path], AbstractContextManager[Scene]],
) -> None:
    """No secret is in the log with all its levels, the state folder, the topics of the gateway, or
    the output of `groupferry state`."""
    own, transactional = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
    rules = [
        Rule("gateway", own, STATE, AclOperation.ALL),
        Rule("gateway", own, EVENTS, AclOperation.ALL),
        Rule("gateway", transactional, f"{STATE}-0", AclOperation.ALL),
    ]
    await trio.to_thread.run_sync(secure_kafka.rule, rules)
    state, secrets = tmp_path / "state", tmp_path / "secrets"
    secrets.mkdir()
    listener = secure_kafka.authority.issue("listener", HOST)
    key = listener.key
    assert key is not None
    host, port = secure_kafka.sasl_ssl
    with trio.fail_after(LIMIT_S), authentication(secrets) as scene:
        flags = (
            "--upstream-security-protocol=sasl_ssl",
            f"--upstream-tls-ca={secure_kafka.authority.ca}",
            *(f"--{name.replace('_', '-')}={value}" for name, value in scene.own.items()),
            f"--tls-cert={listener.cert}",
            f"--tls-key={key}",
            "--state=kafka",
            f"--state-topic={STATE}",
            f"--events-topic={EVENTS}",
            "--log-level=debug",
        )
        async with serving(f"{host}:{port}", state, *flags) as gateway:
            client = {
                "bootstrap.servers": gateway.bootstrap,
                "security.protocol": "sasl_ssl",
                "ssl.ca.location": f"{secure_kafka.authority.ca}",
            }
            for its, polls in scene.clients:
                await trio.to_thread.run_sync(consume, {**client, **its}, polls)
            await gateway.until_event("member_joined")
            shown = await trio.to_thread.run_sync(show_state, secure_kafka, scene.own)
            assert await gateway.terminate() == 0
            printed = "\n".join((*map(json.dumps, gateway.log), *gateway.other_lines)).encode()
        issued = list(scene.issued)
    assert bool(issued) == (authentication is with_tokens)
    left = {"the log": printed, "groupferry state": shown}
    for topic in (STATE, EVENTS):
        left[topic] = await trio.to_thread.run_sync(read_topic, secure_kafka, topic)
    assert b"secrets" in shown
    assert b"member_joined" in left[EVENTS]
    left |= {f"{path}": path.read_bytes() for path in state.rglob("*") if path.is_file()}
    assert b"request_refused" in printed
    assert len(left) > 1
    secret_forms = scene.secrets.union(*map(forms_of_token, issued))
    secret_forms |= {key.read_bytes().splitlines()[1]}
    leaks = [(where, form) for where, text in left.items() for form in secret_forms if form in text]
    assert leaks == []
