"""Nothing that a run leaves behind has a secret in it."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
import trio
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from tests.support.kafka_broker import TOPIC
from tests.support.ports import HOST
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import PROGRAM, serving

pytestmark = pytest.mark.kafka

LIMIT_S = 90
WRONG = "wrong-secret-8213"
STATE, EVENTS = "secrets-state", "secrets-events"


def consume(client: dict[str, str], mechanism: str, password: str, polls: int) -> None:
    """Consume as a member for some polls, with the right password or not."""
    consumer = Consumer(
        {
            **client,
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
            "group.id": "secrets",
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    for _ in range(polls):
        consumer.poll(0.1)
    consumer.close()


def forms_of(secret: str) -> set[bytes]:
    """A secret as it is, and as PLAIN and HTTP send it."""
    plain = f"\0alice\0{secret}".encode()
    return {secret.encode(), base64.b64encode(secret.encode()), base64.b64encode(plain)}


def show_state(secure: SecureKafka, password_file: Path) -> bytes:
    """What `groupferry state` prints about the state topic, with its errors."""
    host, port = secure.sasl_ssl
    settings = {
        "UPSTREAM_SECURITY_PROTOCOL": "sasl_ssl",
        "UPSTREAM_TLS_CA": f"{secure.authority.ca}",
        "UPSTREAM_SASL_MECHANISM": "SCRAM-SHA-256",
        "UPSTREAM_SASL_USERNAME": "gateway",
        "UPSTREAM_SASL_PASSWORD_FILE": f"{password_file}",
    }
    variables = {f"GROUPFERRY_{name}": value for name, value in settings.items()}
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
        found = []
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
                found.append((message.key() or b"") + (message.value() or b""))
        return b"\n".join(found)
    finally:
        consumer.close()


async def test_no_secret_is_left_behind(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    """In the log with all its levels, the state folder, the topics of the gateway, and what
    `groupferry state` prints."""
    own, transactional = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
    rules = [
        Rule("gateway", own, STATE, AclOperation.ALL),
        Rule("gateway", own, EVENTS, AclOperation.ALL),
        Rule("gateway", transactional, f"{STATE}-0", AclOperation.ALL),
    ]
    await trio.to_thread.run_sync(secure_kafka.rule, rules)
    state, secrets = tmp_path / "state", tmp_path / "secrets"
    secrets.mkdir()
    password_file = secrets / "password"
    password_file.write_text(USERS["gateway"])
    listener = secure_kafka.authority.issue("listener", HOST)
    key = listener.key
    assert key is not None
    host, port = secure_kafka.sasl_ssl
    flags = (
        "--upstream-security-protocol=sasl_ssl",
        f"--upstream-tls-ca={secure_kafka.authority.ca}",
        "--upstream-sasl-mechanism=SCRAM-SHA-256",
        "--upstream-sasl-username=gateway",
        f"--upstream-sasl-password-file={password_file}",
        f"--tls-cert={listener.cert}",
        f"--tls-key={key}",
        "--state=kafka",
        f"--state-topic={STATE}",
        f"--events-topic={EVENTS}",
        "--log-level=debug",
    )
    with trio.fail_after(LIMIT_S):
        async with serving(f"{host}:{port}", state, *flags) as gateway:
            client = {
                "bootstrap.servers": gateway.bootstrap,
                "security.protocol": "sasl_ssl",
                "ssl.ca.location": f"{secure_kafka.authority.ca}",
            }
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                for password, polls in ((WRONG, 5), (USERS["alice"], 40)):
                    await trio.to_thread.run_sync(consume, client, mechanism, password, polls)
            await gateway.until_event("member_joined")
            shown = await trio.to_thread.run_sync(show_state, secure_kafka, password_file)
            assert await gateway.terminate() == 0
            printed = "\n".join((*map(json.dumps, gateway.log), *gateway.other_lines)).encode()
    left = {"the log": printed, "groupferry state": shown}
    for topic in (STATE, EVENTS):
        left[topic] = await trio.to_thread.run_sync(read_topic, secure_kafka, topic)
    assert b"secrets" in shown
    assert b"member_joined" in left[EVENTS]
    left |= {f"{each}": each.read_bytes() for each in state.rglob("*") if each.is_file()}
    assert b"request_refused" in printed
    assert len(left) > 1
    secret_forms = forms_of(USERS["gateway"]) | forms_of(USERS["alice"]) | forms_of(WRONG)
    secret_forms.add(key.read_bytes().splitlines()[1])
    found = [(where, each) for where, text in left.items() for each in secret_forms if each in text]
    assert found == []
