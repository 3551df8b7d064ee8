"""Runs an application at the broker and behind the gateway, and compares what it prints.

Behind the gateway every answer is recorded: none names an address of the cluster.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.metadata import MetadataRequest
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group
from tests.support.installs import install_once
from tests.support.java_programs import java_program
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster
from tests.support.kafka_jars import copy_jars, kafka_jars
from tests.support.releases import LAST_CLASSIC
from tests.support.wire_recorder import WireRecorder, record_traffic

LIMIT_S = 180
CONNECT_RELEASE = "4.3"
"""The newest release for which Maven has connect-file and connect-mirror. They fit no other
worker."""
GATEWAY, ADVERTISED = "127.0.0.2", "127.0.0.3"
POM = Path(__file__).parent / "application_jars" / "pom.xml"

MARKS = [
    pytest.mark.kafka,
    pytest.mark.applications,
    pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S),
]
"""The marks of every test of an application."""

Application = Callable[[str, str], Awaitable[Sequence[str]]]
"""Runs with these bootstrap servers under a name of its own. Returns lines that depend neither on
the name nor on times, ids and addresses."""


def application_jars(profile: str, version: str = "") -> Path:
    """The folder with the jars of a profile of the pom. `version` is that of Kafka, if the profile
    has one."""
    choices = [f"--activate-profiles={profile}", f"-Dkafka.version={version}"]
    name = f"{profile}-{version}" if version else profile
    source = POM.read_bytes() + version.encode()
    return install_once(name, source, partial(copy_jars, POM, choices))


def streams_class_path(release: str) -> str:
    """The class path of a Streams application of a release. The programs name what admin clients
    know since Kafka 4."""
    return _with_jars_of(CONNECT_RELEASE if release == LAST_CLASSIC else release, "streams")


def connect_class_path() -> str:
    """The class path of a worker of Connect, or of MirrorMaker, with the connectors for files."""
    return _with_jars_of(CONNECT_RELEASE, "connect")


def _with_jars_of(release: str, profile: str) -> str:
    jars = kafka_jars(release)
    (clients,) = jars.glob("kafka-clients-*.jar")
    version = clients.stem.removeprefix("kafka-clients-")
    return f"{jars}/*:{application_jars(profile, version)}/*"


async def filled_topic(kafka: KafkaCluster, records: int) -> str:
    """A new topic with records whose values are their numbers."""
    topic = fresh_group("filled")
    await kafka.make_topic(topic)

    def produce() -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for number in range(records):
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(10) == 0

    await trio.to_thread.run_sync(produce)
    return topic


async def printed_lines(
    program: str, class_path: str, *arguments: object, limit_s: float = LIMIT_S
) -> Sequence[str]:
    """The lines that a Java program prints."""
    command = await trio.to_thread.run_sync(java_program, program, class_path)
    with trio.fail_after(limit_s):
        done = await trio.run_process(
            [*command, *map(str, arguments)], capture_stdout=True, capture_stderr=True, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


async def check_alike(kafka: KafkaCluster, run: Application) -> tuple[Sequence[str], WireRecorder]:
    """Run an application at the broker and behind the gateway. Returns what both print, and what it
    was told behind the gateway."""
    at_broker: list[Sequence[str]] = []

    async def run_at_broker() -> None:
        at_broker.append(await run(kafka.bootstrap_servers, fresh_group("direct")))

    async with (
        whole_gateway(kafka.addresses, listen_host=GATEWAY, advertised_host=ADVERTISED) as gateway,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(run_at_broker)
        port = gateway.address[1]
        async with await BrokerConnection.open(GATEWAY, port) as connection:
            brokers = (await connection.ask(MetadataRequest(topics=()))).brokers
        ports = [port, *(broker.port for broker in brokers)]
        async with record_traffic(ports, listen_host=ADVERTISED, gateway_host=GATEWAY) as recorder:
            behind = await run(f"{ADVERTISED}:{port}", fresh_group("behind"))
    check_addresses(kafka, recorder)
    assert [behind] == at_broker
    return behind, recorder


def check_addresses(kafka: KafkaCluster, recorder: WireRecorder) -> None:
    """No answer has a host and port of the cluster, in either encoding of a string."""
    for exchange in recorder.exchanges:
        for host, port in kafka.addresses:
            name, number = host.encode(), port.to_bytes(4, "big")
            for length in (bytes([len(name) + 1]), len(name).to_bytes(2, "big")):
                assert length + name + number not in exchange.response, exchange


def apis_in(recorder: WireRecorder) -> set[int]:
    return {exchange.api_key for exchange in recorder.exchanges}
