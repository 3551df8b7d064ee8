"""Real consumers that subscribe with a regular expression, which the gateway resolves.

The consumed records show the clients' view, and the gateway's log shows the assignments.
"""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gateway.demo import reports
from gateway.demo.reports import ConsumedReport
from tests.support.clients import Client, run_client
from tests.support.group_client import fresh_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.mock_cluster import running_mock_cluster
from tests.support.serve_process import ServeProcess, serving

REGEX = "^orders-.*"
LIMIT_S = 60
POLL_S = 0.1

LIBRDKAFKA = Client(library="librdkafka", protocol="consumer")
JAVA = Client(library="java", protocol="consumer")


class Reader:
    """The record numbers that a consumer has read from any topic."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self._heard = trio.Event()

    def read(self, number: int) -> None:
        self.numbers.add(number)
        self._heard.set()
        self._heard = trio.Event()

    async def until(self, number: int) -> None:
        """Wait for a record."""
        while number not in self.numbers:
            await self._heard.wait()

    def hear(self, line: str) -> None:
        """Record the report of a client process."""
        report = reports.decode(line)
        if isinstance(report, ConsumedReport):
            for run in report.runs:
                for number in range(*run):
                    self.read(number)


@asynccontextmanager
async def reading(client: Client, gateway: ServeProcess, group: str) -> AsyncIterator[Reader]:
    """A consumer of every topic that the regular expression matches, for the length of the block.
    Then it leaves its group."""
    reader = Reader()
    async with trio.open_nursery() as nursery:
        if client.library == "librdkafka":
            asked = threading.Event()
            poll = partial(_poll, gateway.bootstrap, group, asked, reader.read)
            nursery.start_soon(trio.to_thread.run_sync, poll)
            try:
                yield reader
            finally:
                asked.set()
        else:
            arguments = [f"--bootstrap={gateway.bootstrap}", f"--topic={REGEX}", f"--group={group}"]
            run = partial(run_client, client, arguments, name="reader", on_line=reader.hear)
            process = await nursery.start(run)
            yield reader
            await process.close()


def _poll(bootstrap: str, group: str, asked: threading.Event, read: Callable[[int], None]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.subscribe([REGEX])
    while not asked.is_set():
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            trio.from_thread.run_sync(read, int(message.value() or b""))
    consumer.close()


def _produce(bootstrap: str, topic: str, number: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0


async def send(gateway: ServeProcess, topic: str, number: int) -> None:
    """Write a record."""
    await trio.to_thread.run_sync(_produce, gateway.bootstrap, topic, number)


def assignments_in(gateway: ServeProcess) -> list[dict[str, list[int]]]:
    """The gateway's assignments in order."""
    return [line["partitions"] for line in gateway.events("partitions_assigned")]


@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA], ids=str)
async def test_a_topic_created_later_is_assigned(client: Client, tmp_path: Path) -> None:
    """Neither client resolves anything itself: it sends the pattern and receives partitions."""
    with trio.fail_after(LIMIT_S):
        async with (
            running_mock_cluster() as upstream,
            serving(upstream.bootstrap_servers, tmp_path) as gateway,
        ):
            await upstream.create_topic("orders-1", 2)
            await upstream.create_topic("others", 1)
            await send(gateway, "orders-1", 1)
            async with reading(client, gateway, "matching") as reader:
                await reader.until(1)
                assert assignments_in(gateway) == [{"orders-1": [0, 1]}]
                await upstream.create_topic("orders-2", 1)
                await send(gateway, "orders-2", 2)
                await reader.until(2)
                assert assignments_in(gateway)[1:] == [{"orders-2": [0]}]
            (left,) = gateway.events("member_left")
            assert left["cause"] == "left"
            assert [line["matches"] for line in gateway.events("regex_resolved")] == [1, 2]
            assert not [line for line in gateway.log if line["level"] == "error"]


@pytest.mark.kafka
@pytest.mark.timeout(FETCH_TIMEOUT_S)
async def test_a_deleted_topic_is_revoked(kafka: KafkaCluster, tmp_path: Path) -> None:
    """This is a real cluster with and without the native protocol. The other topics are still
    consumed, and a topic recreated under the same name is a new one."""
    group = fresh_group("matching")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def create(topic: str) -> None:
        admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(20)

    def delete(topic: str) -> None:
        admin.delete_topics([topic])[topic].result(20)

    with trio.fail_after(LIMIT_S):
        async with serving(kafka.bootstrap_servers, tmp_path) as gateway:
            for topic in ("orders-1", "orders-2"):
                await trio.to_thread.run_sync(create, topic)
            async with reading(LIBRDKAFKA, gateway, group) as reader:
                await send(gateway, "orders-1", 1)
                await send(gateway, "orders-2", 2)
                await reader.until(1)
                await reader.until(2)
                await trio.to_thread.run_sync(delete, "orders-1")
                await gateway.until_event("topics_deleted")
                await send(gateway, "orders-2", 3)
                await reader.until(3)
                await trio.to_thread.run_sync(create, "orders-1")
                await send(gateway, "orders-1", 4)
                await reader.until(4)
            await trio.to_thread.run_sync(delete, "orders-1")
            await trio.to_thread.run_sync(delete, "orders-2")
            assert not [line for line in gateway.log if line["level"] == "error"]
