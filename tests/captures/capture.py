"""Runs real clients and records what they send: `python -m tests.captures.capture [NAME ...]`.

Call it in the top folder of the repository. Without names all clients are captured; the names are
the folders next to this file. The files of a captured client are replaced, and others stay.

Each client runs twice if possible: as two members of a group behind the gateway, with a recorder in
front of the gateway, for its requests; and directly at the embedded cluster, for answers of another
encoder. Some clients need the gateway in both cases, because the embedded cluster's coordinator has
no flexible versions.
"""

import argparse
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType
from kafka.errors import KafkaError

from gateway import logs
from gateway.data_path.config import DataPathConfig
from gateway.demo.clients import end_now
from gateway.demo.reports import AssignedReport
from gateway.demo.run import GROUP_CONFIG
from gateway.gateway import GatewayConfig, run_gateway
from gateway.journal.journal import Sinks
from gateway.state_log.memory import MemoryLog
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.header import decode_request_header
from kafka_codecs.metadata import MetadataRequest
from tests.support import captures
from tests.support.captures import Frame, Kind
from tests.support.client_programs import Library
from tests.support.clients import Client, ClientProcess, run_client
from tests.support.demo_stage import Heard
from tests.support.mock_cluster import MockCluster, running_mock_cluster
from tests.support.until import until
from tests.support.wire import open_wire
from tests.support.wire_recorder import Exchange, WireRecorder, record_traffic

CLUSTER = "127.0.0.1"
GATEWAY = "127.0.0.2"
RECORDER = "127.0.0.3"
TOPIC = "numbers"
GROUP = "captured"
CONFIG = "consumer.session.timeout.ms"
MEMBER = "member-"
PARTITIONS = 4
RECORDS = 200
LIMIT_S = 60
LOOK_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A program to capture: two members of a group, and perhaps an admin client."""

    client: Client
    is_direct: bool = False
    """Whether it can run without the gateway."""
    admin: Callable[[str], None] | None = None
    """If set, only its own requests count, not those of the members."""


def ask_with_librdkafka(servers: str) -> None:
    """The group requests of librdkafka's admin client, and of a transactional producer."""
    admin = AdminClient({"bootstrap.servers": servers, "client.id": "admin"})
    # No configs: librdkafka requests them from the controller, and the embedded cluster has none.
    futures = [
        admin.list_consumer_groups(),
        *admin.describe_consumer_groups([GROUP]).values(),
        *admin.delete_consumer_groups(["nobody"]).values(),
    ]
    for future in futures:
        with contextlib.suppress(KafkaException):
            future.result(10)
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": "t", "client.id": "transactional"}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    reader = Consumer({"bootstrap.servers": servers, "group.id": "transactional"})
    producer.send_offsets_to_transaction(
        [TopicPartition(TOPIC, 0, 1)], reader.consumer_group_metadata(), 10
    )
    producer.abort_transaction(10)
    reader.close()


def ask_with_kafka_python(servers: str) -> None:
    """The group requests of kafka-python's admin client."""
    admin = KafkaAdminClient(bootstrap_servers=servers, client_id="admin")
    resource = PythonConfigResource(ConfigResourceType.GROUP, GROUP, {CONFIG: "50000"})
    for ask in (
        partial(admin.alter_configs, [resource]),
        partial(admin.describe_configs, [resource]),
        admin.list_config_resources,
        admin.describe_cluster,
        admin.list_groups,
        partial(admin.describe_groups, [GROUP]),
        partial(admin.list_group_offsets, GROUP),
        partial(admin.delete_groups, ["nobody"]),
    ):
        with contextlib.suppress(KafkaError):
            ask()
    admin.close()


def _classic(library: Library, assignor: str) -> Client:
    return Client(library=library, assignor=assignor)


SUBJECTS = {
    "librdkafka-classic": Subject(client=_classic("librdkafka", "range"), is_direct=True),
    "librdkafka-cooperative": Subject(client=_classic("librdkafka", "cooperative-sticky")),
    "librdkafka-consumer": Subject(
        client=Client(library="librdkafka", protocol="consumer"), is_direct=True
    ),
    "librdkafka-admin": Subject(client=_classic("librdkafka", "range"), admin=ask_with_librdkafka),
    "kafka-python": Subject(client=_classic("kafka-python", "range")),
    "kafka-python-cooperative": Subject(client=_classic("kafka-python", "cooperative-sticky")),
    "kafka-python-admin": Subject(
        client=_classic("kafka-python", "range"), admin=ask_with_kafka_python
    ),
    "aiokafka": Subject(client=_classic("aiokafka", "roundrobin"), is_direct=True),
    "kafkajs": Subject(client=_classic("kafkajs", "RoundRobinAssigner"), is_direct=True),
    "platformatic-classic": Subject(client=_classic("platformatic", "roundrobin")),
    "platformatic-consumer": Subject(client=Client(library="platformatic", protocol="consumer")),
    "java-classic": Subject(client=_classic("java", "cooperative-sticky")),
    "java-consumer": Subject(client=Client(library="java", protocol="consumer")),
}


async def capture(name: str) -> None:
    """Capture one client and write its files."""
    subject = SUBJECTS[name]
    client = subject.client
    frames: list[Frame] = []
    with trio.fail_after(LIMIT_S):
        async with cluster_with_records() as cluster, gateway_recorded(cluster) as recorder:
            await consume(recorder, client, members=2, admin=subject.admin)
            frames += frames_of(recorder, "request", with_members=subject.admin is None)
        if subject.is_direct:
            async with cluster_with_records() as cluster, cluster_recorded(cluster) as recorder:
                await consume(recorder, client, members=1)
                frames += frames_of(recorder, "request")
                frames += frames_of(recorder, "answer")
    program = client.program()
    about = [
        f"{program.package} {program.version}, {client.protocol} protocol"
        + (f", assignor {client.assignor}" if client.protocol == "classic" else ""),
        f"made by: python -m tests.captures.capture {name}",
    ]
    if subject.is_direct:
        about.append("the answers are those of librdkafka's mock cluster")
    captures.write(captures.FOLDER / name, about, frames)


def frames_of(recorder: "Recording", kind: Kind, *, with_members: bool = True) -> list[Frame]:
    """The recorded frames of APIs with codecs."""
    return [
        Frame(
            kind=kind,
            api_key=ApiKey(exchange.api_key),
            api_version=exchange.api_version,
            data=exchange.request if kind == "request" else exchange.response,
        )
        for exchange in recorder.exchanges
        if (api := APIS.get(ApiKey(exchange.api_key))) is not None
        and api.request is not None
        and (with_members or not _is_of_member(exchange))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The recorded frames, and the address for clients."""

    recorder: WireRecorder
    servers: str

    @property
    def exchanges(self) -> list[Exchange]:
        return self.recorder.exchanges

    async def until(self, *keys: ApiKey) -> None:
        """Wait until each of these APIs was recorded."""
        await until(lambda: {exchange.api_key for exchange in self.exchanges} >= set(keys))


async def consume(
    recording: Recording,
    client: Client,
    *,
    members: int,
    admin: Callable[[str], None] | None = None,
) -> None:
    """Let members join one after another, consume, commit and leave."""
    async with trio.open_nursery() as nursery:
        running = [
            await _join(nursery, recording, client, f"{MEMBER}{number}")
            for number in range(1, members + 1)
        ]
        await recording.until(ApiKey.OFFSET_COMMIT)
        if admin is not None:
            await trio.to_thread.run_sync(admin, recording.servers)
        for connection in running:
            await connection.close()


async def _join(
    nursery: trio.Nursery, recording: Recording, client: Client, name: str
) -> ClientProcess:
    """Start a member and wait until it has partitions."""
    heard = Heard()
    arguments = [
        f"--bootstrap={recording.servers}",
        f"--topic={TOPIC}",
        f"--group={GROUP}",
    ]
    start = partial(run_client, client, arguments, name=name, on_line=heard)
    process: ClientProcess = await nursery.start(start)
    await heard.until(lambda: bool(heard.of(AssignedReport)))
    return process


@asynccontextmanager
async def cluster_with_records() -> AsyncIterator[MockCluster]:
    """An embedded cluster with records to consume."""
    async with running_mock_cluster() as cluster:
        await cluster.create_topic(TOPIC, PARTITIONS)
        await trio.to_thread.run_sync(_produce, cluster.bootstrap_servers)
        yield cluster


@asynccontextmanager
async def gateway_recorded(cluster: MockCluster) -> AsyncIterator[Recording]:
    """A recorder in front of a gateway in front of the cluster. The gateway offers no later
    versions than the cluster does, even for APIs that it answers itself, so the cluster claims
    those."""
    for api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP):
        await cluster.claim_versions(api_key, APIS[api_key].versions)
    config = GatewayConfig(
        upstream=tuple(cluster.bootstrap),
        data_path=DataPathConfig(listen_host=GATEWAY, listen_port=0, advertised_host=RECORDER),
        groups=GROUP_CONFIG,
        max_groups=10,
    )
    async with trio.open_nursery() as nursery:
        address = await nursery.start(
            partial(run_gateway, config, MemoryLog(), Sinks(), stop=trio.Event())
        )
        async with open_wire((GATEWAY, address[1])) as wire:
            brokers = (await wire.ask(MetadataRequest(topics=()), 9)).brokers
        ports = [address[1], *(broker.port for broker in brokers)]
        async with record_traffic(ports, listen_host=RECORDER, gateway_host=GATEWAY) as recorder:
            yield Recording(recorder=recorder, servers=f"{RECORDER}:{address[1]}")
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def cluster_recorded(cluster: MockCluster) -> AsyncIterator[Recording]:
    """A recorder in front of the cluster, which names the recorder's address."""
    ports = [port for _, port in cluster.bootstrap]
    for node_id, port in enumerate(ports, start=1):
        await cluster.set_host_port(node_id, RECORDER, port)
    async with record_traffic(ports, listen_host=RECORDER, gateway_host=CLUSTER) as recorder:
        yield Recording(recorder=recorder, servers=f"{RECORDER}:{ports[0]}")


def _is_of_member(exchange: Exchange) -> bool:
    """Whether a member of the group sent it, and not an admin client."""
    client_id = decode_request_header(exchange.request)[0].client_id
    return client_id is not None and client_id.startswith(MEMBER)


def _produce(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(10) == 0


def main() -> None:
    """Capture all, or those that are named, each in a process of its own.

    librdkafka's admin client sometimes aborts its process when it is destroyed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", choices=[[], *SUBJECTS], default=[])
    names = parser.parse_args().name or list(SUBJECTS)
    if len(names) > 1:
        for name in names:
            sys.stdout.write(f"{name}\n")
            sys.stdout.flush()
            subprocess.run([sys.executable, "-m", "tests.captures.capture", name], check=True)
        return
    logs.configure("console", "warning")
    trio.run(capture, names[0])
    end_now()


if __name__ == "__main__":
    main()
