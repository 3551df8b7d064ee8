"""The commands of the docs do what the docs say, on a real broker with TLS, SCRAM and ACLs."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from tests.support.group_client import fresh_group
from tests.support.kafka_release import kafka_release
from tests.support.ports import HOST, free_port
from tests.support.releases import NEWEST
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import serving

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
LIMIT_S = 120
TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
}
OWN_TOPICS = ("--state=kafka", "--events-topic=groupferry-events")


def commands(page: str, having: str) -> str:
    """The block of a page that has this text."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", (ROOT / page).read_text(), re.M | re.S)
    (block,) = [block for block in blocks if having in block]
    return str(block)


def prepare(secure: SecureKafka, folder: Path) -> None:
    """Put what an operator has into the folder: Kafka's tools and certificates."""
    for name, tool in TOOLS.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(kafka_release(NEWEST).command(tool))} "$@"\n')
        path.chmod(0o700)
    (folder / "admin.properties").touch()
    listener = secure.authority.issue("documented", HOST)
    assert listener.cert is not None
    assert listener.key is not None
    shutil.copy(secure.authority.ca, folder / "cluster-ca.pem")
    shutil.copy(listener.cert, folder / "gateway.pem")
    shutil.copy(listener.key, folder / "gateway.key")


def give_rights(secure: SecureKafka, folder: Path) -> None:
    """Paste the documented commands into a shell."""
    host, port = secure.plain
    script = commands("gateway/docs/security.md", "kafka-acls.sh")
    assert "KAFKA:9093" in script
    done = subprocess.run(
        ["sh", "-e", "-c", script.replace("KAFKA:9093", f"{host}:{port}")],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def documented_flags(replaced: Mapping[str, str]) -> tuple[str, ...]:
    """The flags of the README's command, with these words replaced."""
    words = shlex.split(commands("README.md", "--upstream-sasl-mechanism").replace("\\\n", " "))
    assert words[:2] == ["groupferry", "serve"]
    pairs = zip(words[2::2], words[3::2], strict=True)
    return tuple(f"{flag}={replaced.get(flag, value)}" for flag, value in pairs)


def consume(bootstrap: str, secure: SecureKafka, topic: str) -> bytes | None:
    """Consume one record as alice, whose settings are those that she has without the gateway."""
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": f"{secure.authority.ca}",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }
    producer = Producer(settings)
    producer.produce(topic, b"documented")
    assert producer.flush(LIMIT_S) == 0
    consumer = Consumer(
        {**settings, "group.id": fresh_group("documented"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None, message.error()
        return message.value()
    finally:
        consumer.close()


@pytest.mark.parametrize("more", [(), OWN_TOPICS], ids=["as-is", "with-own-topics"])
async def test_a_gateway_with_the_documented_rights_starts_without_a_warning(
    secure_kafka: SecureKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str]
) -> None:
    """The README's command starts it, and a consumer with its own user continues through it."""
    prepare(secure_kafka, tmp_path)
    monkeypatch.chdir(tmp_path)
    await trio.to_thread.run_sync(give_rights, secure_kafka, tmp_path)
    topic = fresh_group("documented")
    rule = Rule("alice", ResourceType.TOPIC, topic, AclOperation.ALL)
    await trio.to_thread.run_sync(secure_kafka.rule, [rule])  # the broker follows all of them now
    host, port = secure_kafka.sasl_ssl
    bootstrap = f"{HOST}:{free_port()}"
    flags = documented_flags(
        {"--upstream": f"{host}:{port}", "--listen": bootstrap, "--advertise": HOST}
    )
    with trio.fail_after(LIMIT_S):
        async with serving(
            f"{host}:{port}", tmp_path / "state", *flags, *more, bootstrap=bootstrap
        ) as gateway:
            assert await trio.to_thread.run_sync(consume, bootstrap, secure_kafka, topic)
            assert await gateway.terminate() == 0
    await trio.to_thread.run_sync(secure_kafka.delete_topic, topic)
    warnings = [line for line in gateway.log if line["level"] not in ("debug", "info")]
    assert warnings == []
    assert gateway.other_lines == []
