"""What coordinator nodes cost clients: the size of Metadata, the threads of librdkafka, and the
requests that clients send while a coordinator's address refuses. `bench_fleet` prints them.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import trio

from gateway.fleet.member import is_coordinator
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.codec import encode
from kafka_codecs.metadata import MetadataRequest
from tests.support.clients import Client
from tests.support.group_client import find_coordinator, fresh_group
from tests.support.group_stage import PARTITIONS, GroupStage, on_kafka
from tests.support.kafka_broker import KafkaCluster
from tests.support.mock_cluster import running_mock_cluster
from tests.support.ports import free_port
from tests.support.serve_process import ServeProcess, serving
from tests.support.until import until
from tests.support.wire import open_wire
from tests.support.wire_recorder import record_traffic

OWN_HOST, SHOWN_HOST = "127.0.0.8", "127.0.0.9"
"""Addresses on which nothing else has ports: a fleet in front of a hundred brokers needs hundreds
in a row. Clients come to the second one, through a relay that counts."""
METADATA_VERSION = 12
PROCESSES = 2
REFUSING_S = 4.0
START_LIMIT_S = 180.0
THREADS = """
import os, sys, time
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "threads"})
consumer.subscribe([sys.argv[2]])
most = 0
for _ in range(20):
    consumer.poll(0.1)
    most = max(most, len(os.listdir("/proc/self/task")))
print(most)
"""
"""A librdkafka consumer that prints how many threads its process has."""
LIBRARIES: Sequence[Client] = (
    Client(library="librdkafka", assignor="cooperative-sticky"),
    Client(library="librdkafka", protocol="consumer"),
    Client(library="sarama"),
    Client(library="franz-go", assignor="cooperative-sticky"),
    Client(library="kafka-python"),
    Client(library="aiokafka"),
    Client(library="kafkajs"),
)


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """What one gateway costs its clients."""

    nodes: int
    metadata_bytes: int
    threads: int


@asynccontextmanager
async def _serving(
    upstream: str, folder: Path, *flags: str, bootstrap: str
) -> AsyncIterator[ServeProcess]:
    """A gateway whose log does not stand among the figures."""
    with redirect_stdout(StringIO()):
        async with serving(upstream, folder, *flags, bootstrap=bootstrap) as gateway:
            yield gateway


async def measure_nodes(brokers: int, processes: int) -> NodeCosts:
    """Measure a gateway in front of this many brokers; 0 processes mean a single gateway."""
    topic = "numbers"
    flags = [f"--processes={processes}"] if processes else []
    bootstrap = f"{OWN_HOST}:{free_port()}"
    async with running_mock_cluster(brokers) as cluster:
        await cluster.create_topic(topic, brokers)
        with tempfile.TemporaryDirectory() as folder:
            async with _serving(
                cluster.bootstrap_servers, Path(folder), *flags, bootstrap=bootstrap
            ) as gateway:
                if processes:
                    await gateway.until_event("fleet_started")
                async with open_wire(gateway.address) as client:
                    metadata = await client.ask(MetadataRequest(topics=()), METADATA_VERSION)
                counted = await trio.run_process(
                    [sys.executable, "-c", THREADS, bootstrap, topic],
                    capture_stdout=True,
                    stderr=subprocess.DEVNULL,
                )
    size = len(encode(metadata, METADATA_VERSION))
    return NodeCosts(len(metadata.brokers), size, int(counted.stdout))


async def print_nodes(counts: Sequence[int]) -> None:
    """Print what a fleet and a single gateway cost in front of this many brokers."""
    for brokers in counts:
        for processes in (0, PROCESSES):
            costs = await measure_nodes(brokers, processes)
            name = f"{processes} processes" if processes else "a single gateway"
            print(
                f"{brokers} brokers, {name}: {costs.nodes} nodes, Metadata of"
                f" {costs.metadata_bytes} bytes, a librdkafka client of {costs.threads} threads",
                flush=True,
            )


async def print_refusing(kafka: KafkaCluster) -> None:
    """Print how many requests a client of each library sends while its coordinator's address
    refuses."""
    for client in LIBRARIES:
        with trio.fail_after(START_LIMIT_S):
            counts = await count_requests(kafka, client)
        shown = ", ".join(f"{count} {ApiKey(key).name}" for key, count in counts)
        print(
            f"{client}: {shown or 'nothing'} in {REFUSING_S:g} s without its coordinator",
            flush=True,
        )


async def count_requests(kafka: KafkaCluster, client: Client) -> Sequence[tuple[int, int]]:
    """The requests of a consumer by api, the most frequent first, while its coordinator's address
    refuses."""
    upstream = ",".join(f"{host}:{port}" for host, port in kafka.addresses)
    flags = (f"--processes={PROCESSES}", f"--advertise={SHOWN_HOST}", "--groups-host=*")
    bootstrap = f"{OWN_HOST}:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        async with _serving(upstream, Path(folder), *flags, bootstrap=bootstrap) as gateway:
            await gateway.until_event("fleet_started")
            return await _count_at(kafka, gateway, client)


async def _count_at(
    kafka: KafkaCluster, gateway: ServeProcess, client: Client
) -> Sequence[tuple[int, int]]:
    async with open_wire(gateway.address) as at_gateway:
        metadata = await at_gateway.ask(MetadataRequest(topics=()), METADATA_VERSION)
    ports = sorted({gateway.address[1], *(broker.port for broker in metadata.brokers)})
    shown = f"{SHOWN_HOST}:{gateway.address[1]}"
    async with (
        on_kafka(kafka)(PARTITIONS) as upstream,
        record_traffic(ports, listen_host=SHOWN_HOST, gateway_host=OWN_HOST) as recorder,
        trio.open_nursery() as nursery,
    ):
        stage = GroupStage(nursery, replace(upstream, group=fresh_group("refused")), gateway)
        await stage.join("m", client, bootstrap=shown)
        await until(lambda: len(stage.ledger.owners()) == PARTITIONS)
        named = await find_coordinator(gateway.address, stage.group)
        assert is_coordinator(named.node_id)
        before = len(recorder.exchanges)
        recorder.refuse(named.port)
        await trio.sleep(REFUSING_S)
        apis = Counter(exchange.api_key for exchange in recorder.exchanges[before:])
        await recorder.watch(named.port)
        await stage.leave("m")
        nursery.cancel_scope.cancel()
    return apis.most_common()
