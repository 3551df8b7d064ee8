"""Real Apache Kafka for tests: KRaft, on the loopback, from the jars that Maven fetches.

No Docker: a broker is one Java process. The first run fetches the jars into the user's cache
folder; `kafka/pom.xml` says which versions. Without Java or Maven the tests skip, in CI they fail.
"""

import ctypes
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest
from tests.support.group_client import group_client
from tests.support.requirements import missing

Address = tuple[str, int]

POM = Path(__file__).parent / "kafka" / "pom.xml"
CLUSTER_ID = "groupferry-tests-kafka"
TOPIC = "numbers"
PARTITIONS = 3
NOT_COORDINATOR = 16
GROUPS_LOOKED_AT = 12  # enough to meet every coordinator
HOST = "127.0.0.1"
FETCH_TIMEOUT_S = 600
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20
PR_SET_PDEATHSIG = 1
FIRST_JAVA_VERSION = 17
JAVA_OPTIONS = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]

# Small and quick: one partition of the offsets per broker, no waiting for more members.
SETTINGS = """\
process.roles={roles}
node.id={node_id}
controller.quorum.voters=1@{host}:{controller_port}
listeners={listeners}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions={partitions}
offsets.topic.replication.factor=1
offsets.topic.num.partitions={brokers}
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """A running cluster."""

    release: str
    """As in `kafka/pom.xml`, for example "4.3"."""
    addresses: tuple[Address, ...]
    """By node id, from 1 on."""

    @property
    def has_new_protocol(self) -> bool:
        """Whether its coordinators know KIP-848."""
        return int(self.release.partition(".")[0]) >= 4

    @property
    def bootstrap_servers(self) -> str:
        """As clients are told."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)


@contextmanager
def running_kafka(release: str, brokers: int = 2) -> Iterator[KafkaCluster]:
    """Run a cluster for the length of the block; node 1 is its controller too."""
    jars = kafka_jars(release)
    ports = _free_ports(brokers + 1)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupferry-kafka-")))
        processes = []
        for node_id, port in enumerate(ports[1:], start=1):
            home = folder / str(node_id)
            settings = _write_settings(
                home, node_id, port, controller_port=ports[0], brokers=brokers
            )
            _format(jars, settings)
            processes.append(stack.enter_context(_broker(jars, settings)))
        for port, process in zip(ports[1:], processes, strict=True):
            _wait_until_open(port, process, folder)
        cluster = KafkaCluster(release=release, addresses=tuple((HOST, port) for port in ports[1:]))
        trio.run(_make_ready, cluster)
        yield cluster


async def _make_ready(cluster: KafkaCluster) -> None:
    """Wait for all brokers; make the topic, and with a first look the one of the offsets.

    With requests of our own: librdkafka's admin client crashed now and then doing this.
    """
    host, port = cluster.addresses[0]
    with trio.fail_after(START_TIMEOUT_S):
        async with await BrokerConnection.open(host, port) as connection:
            topic = MetadataRequestTopic(name=TOPIC)
            request = MetadataRequest(topics=(topic,), allow_auto_topic_creation=True)
            while not _is_ready(  # noqa: ASYNC110  # nobody would tell
                await connection.ask(request, 9), len(cluster.addresses)
            ):
                await trio.sleep(0.05)
        for number in range(GROUPS_LOOKED_AT):
            await _look_at_offsets(cluster.addresses[0], f"ready-{number}")


def _is_ready(seen: MetadataResponse, brokers: int) -> bool:
    (topic,) = seen.topics
    led = [partition for partition in topic.partitions if partition.leader_id >= 0]
    return len(seen.brokers) == brokers and len(led) == PARTITIONS


async def _look_at_offsets(address: Address, group: str) -> None:
    """Wait until the group has a coordinator that has loaded its part of the offsets."""
    code = NOT_COORDINATOR
    while code:
        async with group_client(address, group) as client:
            request = OffsetFetchRequest(group_id=group, topics=None)
            code = (await client.connection.ask(request, 5)).error_code
        if code:
            await trio.sleep(0.05)


def _write_settings(
    home: Path, node_id: int, port: int, *, controller_port: int, brokers: int
) -> Path:
    home.mkdir()
    is_controller = node_id == 1
    listeners = f"PLAINTEXT://{HOST}:{port}"
    settings = home / "server.properties"
    settings.write_text(
        SETTINGS.format(
            roles="broker,controller" if is_controller else "broker",
            node_id=node_id,
            host=HOST,
            port=port,
            controller_port=controller_port,
            listeners=(
                f"{listeners},CONTROLLER://{HOST}:{controller_port}" if is_controller else listeners
            ),
            folder=home,
            brokers=brokers,
            partitions=PARTITIONS,
        )
    )
    return settings


def _java(jars: Path, main: str, *arguments: str) -> list[str]:
    return ["java", *JAVA_OPTIONS, "-cp", f"{jars}/*", main, *arguments]


def _format(jars: Path, settings: Path) -> None:
    command = _java(
        jars, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", f"{settings}"
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the storage was not formatted:\n{done.stdout}{done.stderr}")


@contextmanager
def _broker(jars: Path, settings: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (settings.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            _java(jars, "kafka.Kafka", f"{settings}"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,  # Ctrl-C is for the tests, which then stop it
            preexec_fn=_die_with_parent,  # noqa: PLW1509  # the tests' own process may be killed
        )
    try:
        yield process
    finally:
        process.kill()  # what it holds goes with the folder
        process.wait(STOP_TIMEOUT_S)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_until_open(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.05)
    logs = "".join(path.read_text(errors="replace")[-4000:] for path in folder.glob("*/log"))
    raise RuntimeError(f"the broker at port {port} did not start:\n{logs}")


def _free_ports(count: int) -> Sequence[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def kafka_jars(release: str) -> Path:
    """The folder with the jars of one release, fetched if this machine does not have them yet."""
    _require_java()
    pom = POM.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    jars = cache / "groupferry-tests" / f"kafka-{release}-{hashlib.sha256(pom).hexdigest()[:12]}"
    if not jars.exists():
        _fetch(release, jars)
    return jars


def _require_java() -> None:
    if shutil.which("java") is None:
        missing("a Java runtime, for Apache Kafka")
    shown = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"],  # noqa: S607, RUF100  # from the path
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    found = [line for line in shown.splitlines() if "java.specification.version =" in line]
    version = found[0].rpartition("=")[2].strip() if found else "0"
    if int(version.partition(".")[0]) < FIRST_JAVA_VERSION:
        missing(f"Java {FIRST_JAVA_VERSION}, for Apache Kafka; this is {version}")


def _fetch(release: str, jars: Path) -> None:
    if shutil.which("mvn") is None:
        missing("Maven, to fetch Apache Kafka")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="fetching-") as folder:
        fetched = Path(folder) / "jars"
        command = [
            "mvn",
            "--quiet",
            "--batch-mode",
            f"--file={POM}",
            f"--activate-profiles=kafka-{release}",
        ]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        command += ["-DincludeScope=runtime"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
        if done.returncode:
            missing(f"the jars of Apache Kafka {release}: {done.stdout.strip()[-2000:]}")
        if not jars.exists():  # another run may have been quicker
            fetched.rename(jars)
