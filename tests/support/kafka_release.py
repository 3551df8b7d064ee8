"""A release of Kafka that is ready to start: its jars, a class archive and a formatted storage.

Half of a node's start is loading classes, and formatting a storage takes a process. Both are done
once per machine.
"""

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from tests.support.installs import install_once, run
from tests.support.kafka_jars import kafka_jars
from tests.support.ports import HOST, free_port, is_open
from tests.support.until import until_outside_trio

CLUSTER_ID = "groupferry-tests-kafkQ"
"""128 bits in base64: Kafka 2.8 decodes it, so the last letter stands for two bits only."""
CONTROLLER_ID = 100
LISTENER_PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
"""The default since 3.0."""
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60
QUICK_START = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of Java for tests: small, and without the compiler that pays off after minutes."""
_FORMAT = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRelease:
    """The files of a release."""

    jars: Path
    prepared: Path
    java_options: tuple[str, ...]
    """The Java options of its nodes and tools."""

    def command(self, *arguments: str) -> list[str]:
        """The command that runs one of its classes, the first of the arguments."""
        # The JVM ignores an archive that does not fit.
        archive = f"-XX:SharedArchiveFile={_classes(self.prepared)}"
        return _java(self.jars, *self.java_options, archive, *arguments)

    def format_storage(self, data: Path, node_id: int) -> None:
        """Prepare a node's storage with the features of its release."""
        shutil.copytree(_storage(self.prepared), data)
        properties = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node_id}\n"
        (data / "meta.properties").write_text(properties)


@cache
def kafka_release(name: str, java_options: tuple[str, ...] = QUICK_START) -> KafkaRelease:
    """A release in `kafka/pom.xml`, installed if this machine lacks it."""
    jars = kafka_jars(name)
    source = f"{jars} {QUICK_START} {_FORMAT}".encode()
    prepared = install_once(f"kafka-{name}-prepared", source, partial(_prepare, jars))
    return KafkaRelease(jars=jars, prepared=prepared, java_options=java_options)


def _prepare(jars: Path, folder: Path) -> None:
    """Start a cluster of one node, and keep its formatted storage and its loaded classes."""
    port, controller_port, data = free_port(), free_port(), folder / "data"
    settings = folder / "server.properties"
    settings.write_text(
        "process.roles=broker,controller\n"
        f"node.id={CONTROLLER_ID}\n"
        f"controller.quorum.voters={CONTROLLER_ID}@{HOST}:{controller_port}\n"
        "controller.listener.names=CONTROLLER\n"
        f"listener.security.protocol.map={LISTENER_PROTOCOLS}\n"
        f"listeners=CONTROLLER://{HOST}:{controller_port},PLAINTEXT://{HOST}:{port}\n"
        f"log.dirs={data}\n"
    )
    run(_java(jars, *QUICK_START, *_FORMAT, f"{settings}"))
    shutil.copytree(data, _storage(folder))
    dump = f"-XX:ArchiveClassesAtExit={_classes(folder)}"
    with subprocess.Popen(
        _java(jars, *QUICK_START, dump, "kafka.Kafka", f"{settings}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as node:
        try:
            until_outside_trio(lambda: node.poll() is not None or is_open(port))
            node.terminate()
            node.wait(STOP_TIMEOUT_S)
        finally:
            node.kill()
    shutil.rmtree(data)


def _java(jars: Path, *arguments: str) -> list[str]:
    return ["java", "-cp", f"{jars}/*", *arguments]


def _classes(prepared: Path) -> Path:
    return prepared / "classes.jsa"


def _storage(prepared: Path) -> Path:
    return prepared / "controller"
