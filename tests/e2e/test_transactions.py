"""Exactly once: workers read, write and commit in transactions, in a hosted group on real Kafka."""

import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.clients import read_lines
from tests.support.gateway import QUICK, whole_gateway
from tests.support.group_client import fresh_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster
from tests.support.releases import in_turn
from tests.support.until import until, until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

WORKER = Path(__file__).parent.parent / "clients" / "transactional_worker.py"
LIMIT_S = 60
SHORT_SESSIONS = replace(
    QUICK, consumer_session_timeout_ms=6_000, consumer_heartbeat_interval_ms=500
)


class Worker:
    """A running worker, and the number of records that it has committed."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._heard = trio.Event()
        self.committed = 0
        self.said: list[str] = []

    def hear(self, line: str) -> None:
        """Count the worker's progress."""
        self.said.append(line)
        if line.startswith("committed "):
            self.committed += int(line.split()[1])
        self._heard.set()
        self._heard = trio.Event()

    async def until_committed(self, count: int) -> None:
        """Wait until it has committed this many more records."""
        wanted = self.committed + count
        while self.committed < wanted:
            await self._heard.wait()

    async def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """Let the worker finish and leave."""
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        assert await self._process.wait() == 0, self.said


async def start_worker(nursery: trio.Nursery, **options: str) -> Worker:
    """Start a worker."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    pipe = subprocess.PIPE
    run = partial(trio.run_process, stdin=pipe, stdout=pipe, stderr=pipe, check=False)
    process = await nursery.start(run, [sys.executable, "-P", str(WORKER), *flags])
    worker = Worker(process)
    nursery.start_soon(read_lines, process.stdout, worker.hear)
    nursery.start_soon(read_lines, process.stderr, worker.hear)
    return worker


def feed(servers: str, topic: str, numbers: range) -> None:
    """Write these numbers."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(LIMIT_S) == 0


def everything_in(servers: str, topic: str) -> list[int]:
    """The committed numbers of a topic, in order."""
    config = {"bootstrap.servers": servers, "group.id": topic, "enable.partition.eof": True}
    reader = Consumer({**config, "isolation.level": "read_committed"})
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    values: list[int] = []
    ends = 0
    while ends < PARTITIONS:
        message = reader.poll(LIMIT_S)
        assert message is not None
        if message.error() is None:
            values.append(int(message.value() or b""))
        else:
            ends += 1  # the partition does not matter: there are no more writers
    reader.close()
    return sorted(values)


@in_turn("first,second", ("classic", "classic"), ("consumer", "consumer"), ("classic", "consumer"))
async def test_a_read_process_write_loop_loses_and_repeats_nothing(
    kafka: KafkaCluster, first: str, second: str
) -> None:
    """While a second worker joins, the first is killed within a transaction and restarts."""
    source, target, group = (fresh_group(kind) for kind in ("source", "target", "group"))
    for topic in (source, target):
        await kafka.make_topic(topic)
    async with (
        whole_gateway(kafka.addresses, groups=SHORT_SESSIONS) as gateway,
        trio.open_nursery() as nursery,
    ):
        servers = gateway.bootstrap_servers
        written = 0

        async def feed_more() -> None:
            nonlocal written
            more = range(written, written + 300)
            await trio.to_thread.run_sync(feed, servers, source, more)
            written = more.stop

        start = partial(
            start_worker, nursery, bootstrap=servers, group=group, source=source, target=target
        )
        with trio.fail_after(LIMIT_S):
            one = await start(protocol=first, transactional_id=f"{group}-1")
            await feed_more()
            await one.until_committed(100)
            two = await start(protocol=second, transactional_id=f"{group}-2")
            while not two.committed:
                await feed_more()
                await until(lambda: two.committed or one.committed >= written)
            await feed_more()
            await one.kill()
            one_again = await start(protocol=first, transactional_id=f"{group}-1")
            await feed_more()
            await until_answered(
                lambda: trio.to_thread.run_sync(everything_in, servers, target),
                lambda values: len(values) >= written,
            )
            for worker in (one_again, two):
                await worker.end()
        values = await trio.to_thread.run_sync(everything_in, kafka.bootstrap_servers, target)
        assert values == list(range(written))
        assert one.committed
        assert two.committed
        nursery.cancel_scope.cancel()


def consumer_of(servers: str, topic: str, group: str, protocol: str) -> Consumer:
    """A consumer that contacts the group only when it polls."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    return consumer


def poll_until(*partitions: tuple[Consumer, range]) -> None:
    """Poll all of them until each has this many partitions."""
    deadline = time.monotonic() + LIMIT_S
    while any(len(consumer.assignment()) not in wanted for consumer, wanted in partitions):
        assert time.monotonic() < deadline
        for consumer, _ in partitions:
            consumer.poll(0.1)


def commit_with_stale_metadata(servers: str, topic: str, group: str, protocol: str) -> list[str]:
    """The results of three transactions: of a member of an older generation for a partition that it
    has given up, of one that has left, and of a present one."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": group, "log_level": 0})
    producer.init_transactions(LIMIT_S)

    def outcome(partition: int, metadata: object) -> str:
        producer.begin_transaction()
        position = TopicPartition(topic, partition, 1)
        try:
            producer.send_offsets_to_transaction([position], metadata, LIMIT_S)
            producer.commit_transaction(LIMIT_S)
        except KafkaException as refusal:
            producer.abort_transaction(LIMIT_S)
            return str(refusal.args[0].name())
        return "committed"

    all_of_them, few = range(PARTITIONS, PARTITIONS + 1), range(1, PARTITIONS)
    one = consumer_of(servers, topic, group, protocol)
    poll_until((one, all_of_them))
    older = one.consumer_group_metadata()
    two = consumer_of(servers, topic, group, protocol)
    poll_until((one, few), (two, few))
    moved = two.assignment()[0].partition
    outcomes = [outcome(moved, older)]
    left = one.consumer_group_metadata()
    one.close()
    poll_until((two, all_of_them))
    outcomes += [outcome(moved, left), outcome(moved, two.consumer_group_metadata())]
    two.close()
    return outcomes


@in_turn("protocol", ["classic"], ["consumer"])
async def test_a_stale_member_cannot_commit_in_a_transaction(
    kafka: KafkaCluster, protocol: str
) -> None:
    """Its transaction must abort. The present owner of the partition commits."""
    topic, group = fresh_group("stale"), fresh_group("group")
    await kafka.make_topic(topic)
    async with whole_gateway(kafka.addresses, groups=SHORT_SESSIONS) as gateway:
        outcomes = await trio.to_thread.run_sync(
            commit_with_stale_metadata, gateway.bootstrap_servers, topic, group, protocol
        )
    assert outcomes == ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "committed"]
