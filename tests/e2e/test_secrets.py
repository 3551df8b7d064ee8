"""Nothing that a run leaves behind has a secret in it."""

import base64
import json
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from tests.support.kafka_broker import TOPIC
from tests.support.ports import HOST
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import serving

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


async def test_no_secret_is_left_behind(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    """In the log with all its levels, and in the state folder."""
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
            assert await gateway.terminate() == 0
            printed = "\n".join((*map(json.dumps, gateway.log), *gateway.other_lines)).encode()
    left = {"the log": printed}
    left |= {f"{each}": each.read_bytes() for each in state.rglob("*") if each.is_file()}
    assert b"request_refused" in printed
    assert len(left) > 1
    secret_forms = forms_of(USERS["gateway"]) | forms_of(USERS["alice"]) | forms_of(WRONG)
    secret_forms.add(key.read_bytes().splitlines()[1])
    found = [(where, each) for where, text in left.items() for each in secret_forms if each in text]
    assert found == []
