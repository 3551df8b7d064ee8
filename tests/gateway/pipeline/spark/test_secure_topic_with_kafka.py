"""A topic of a cluster with TLS, SASL and ACLs is read as the gateway itself would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from gateway.addresses import Address
from gateway.cluster.access import Access
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.events.group_events import GroupCreated
from gateway.pipeline import PipelineError
from gateway.pipeline.spark.inputs import topic_lines
from gateway.pipeline.topic import EventsTopic
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from tests.support.command_lines import all_command_lines
from tests.support.event_writer import EventWriter
from tests.support.group_client import fresh_group
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.spark import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.kafka

LIMIT_S = 300
LOOK_INTERVAL_S = 0.2
READER, PASSWORD = "reporter", 'a "secret" of \\ its own'
TALKATIVE = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = info
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """A topic with the events of one group."""

    secure: SecureKafka
    topic: str

    def topic_for(self, place: tuple[str, int], access: Access) -> EventsTopic:
        """The topic, with this access to it."""
        return EventsTopic(name=self.topic, upstream=[Address(*place)], access=access)


@pytest.fixture(scope="module")
def scene(secure_kafka: SecureKafka) -> Iterator[Scene]:
    """The reader may read the topic, and nothing else. Other tests list the cluster's topics."""
    topic = fresh_group("events")
    secure_kafka.add_users({READER: PASSWORD})
    secure_kafka.rule(
        [Rule(user, ResourceType.TOPIC, topic, AclOperation.READ) for user in (READER, "alice")]
    )
    writer = EventWriter()
    writer.emit(1, GroupCreated(kind="classic"))
    host, port = secure_kafka.plain
    producer = Producer({"bootstrap.servers": f"{host}:{port}"})
    for line in writer.lines:
        producer.produce(topic, line.encode())
    assert producer.flush(LIMIT_S) == 0
    yield Scene(secure_kafka, topic)
    secure_kafka.delete_topic(topic)


@pytest.mark.parametrize(
    ("mechanism", "user", "secret"),
    [("SCRAM-SHA-256", READER, PASSWORD), ("PLAIN", "alice", USERS["alice"])],
)
def test_a_report_reads_it_and_shows_the_password_nowhere(
    scene: Scene, tmp_path: Path, mechanism: str, user: str, secret: str
) -> None:
    """The password is not in Spark's log with its plans and configurations, in its event log, on a
    command line or in what the report leaves behind."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties").write_text(TALKATIVE)
    (tmp_path / "spark-events").mkdir()
    password = tmp_path / "password"
    password.write_text(secret)
    host, port = scene.secure.sasl_ssl
    security = {
        "SECURITY_PROTOCOL": "sasl_ssl",
        "TLS_CA": f"{scene.secure.authority.ca}",
        "SASL_MECHANISM": mechanism,
        "SASL_USERNAME": user,
        "SASL_PASSWORD_FILE": f"{password}",
    }
    settings = {
        **SETTINGS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{tmp_path}/spark-events",
    }
    command = [
        *(sys.executable, "-m", "gateway", "report", f"--events-topic={scene.topic}"),
        *(f"--upstream={host}:{port}", f"--output={tmp_path / 'out'}"),
        *(f"--conf={name}={value}" for name, value in settings.items()),
    ]
    environment = {
        **os.environ,
        "SPARK_CONF_DIR": f"{tmp_path / 'conf'}",
        **{f"GROUPFERRY_UPSTREAM_{name}": value for name, value in security.items()},
    }
    command_lines: set[bytes] = set()
    log = tmp_path / "log"
    with (
        log.open("wb") as printed,
        subprocess.Popen(command, stdout=printed, stderr=printed, env=environment) as child,
    ):
        try:
            while child.poll() is None:
                command_lines |= set(all_command_lines())
                with suppress(subprocess.TimeoutExpired):
                    child.wait(LOOK_INTERVAL_S)
        finally:
            child.kill()
    assert child.returncode == 0, log.read_text()[-2000:]
    assert any(b"SparkSubmit" in line for line in command_lines)
    password.unlink()
    left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"SparkListenerApplicationStart" in left
    part = secret.rpartition('"')[2]
    for text in (left, *command_lines):
        for written in (part, part.replace("\\", "\\\\")):
            assert written.encode() not in text


def test_a_certificate_reads_it(scene: Scene, spark: SparkSession) -> None:
    """Executors read it from its file."""
    everybody = Rule("*", ResourceType.TOPIC, scene.topic, AclOperation.READ)
    scene.secure.rule([everybody])
    files = scene.secure.authority.issue(READER)
    topic = scene.topic_for(scene.secure.mtls, Access(tls=certificates.for_brokers(files)))
    (line,) = topic_lines(spark, topic).collect()
    assert "group_created" in line.line
    unknown = CertificateFiles(ca=files.ca)
    topic = scene.topic_for(scene.secure.mtls, Access(tls=certificates.for_brokers(unknown)))
    with pytest.raises(PipelineError, match=scene.topic):
        topic.spans()


def test_no_secret_leaves_this_machine(
    scene: Scene, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster, executors would need it."""
    monkeypatch.setattr(spark.sparkContext, "master", "spark://host:7077")
    credentials = Credentials(mechanism="PLAIN", username=READER, password=Secret(PASSWORD))
    topic = scene.topic_for(scene.secure.sasl_ssl, replace(Access(), credentials=credentials))
    with pytest.raises(PipelineError, match="in local mode"):
        topic_lines(spark, topic)
