"""What the gateway costs: the same work with and without it, in turn, in one run.

    .venv/bin/python tests/bench/bench_gateway.py

Prints, per kind of work, the medians and the ratio of gateway to direct:
- produce and consume: librdkafka clients, records of 1,000 bytes over 12 partitions;
- round trips of FindCoordinator, which the gateway rewrites, one after the other.
Then, with nothing to compare it to, round trips of ConsumerGroupHeartbeat, which the engine
answers. All of it shares this machine's cores: read the ratios, not the figures.
"""

import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.ports import is_open
from tests.support.until import until

TOPIC = "numbers"
PARTITIONS = 12
RECORDS = 36_000
RECORD = b"x" * 1_000
ROUND_TRIPS = 3_000
RUNS = 5
GATEWAY_PORT = 29092
FIND_COORDINATOR_VERSION = 2


@contextmanager
def mock_cluster() -> Iterator[str]:
    """A new embedded cluster. It stores only 5 MiB per partition, so each run needs its own."""
    command = [
        sys.executable,
        "-m",
        "gateway.demo.mock_cluster",
        f"--topic={TOPIC}",
        f"--partitions={PARTITIONS}",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        yield child.stdout.readline().strip()
        child.stdin.close()


@contextmanager
def gateway(upstream: str) -> Iterator[str]:
    """`groupferry serve` in front of it."""
    with tempfile.TemporaryDirectory() as state_dir:
        listen = f"127.0.0.1:{GATEWAY_PORT}"
        flags = ["--upstream", upstream, "--listen", listen, "--state-dir", state_dir]
        command = [sys.executable, "-m", "gateway", "serve", *flags]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
            try:
                trio.run(until, partial(is_open, GATEWAY_PORT))
                yield listen
            finally:
                child.terminate()


def produce(bootstrap: str) -> float:
    """Records per second, until the last one is acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    started = time.perf_counter()
    for number in range(RECORDS):
        producer.produce(TOPIC, RECORD, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()
    return RECORDS / (time.perf_counter() - started)


def consume(bootstrap: str) -> float:
    """Records per second, from the first one on."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "fetch.wait.max.ms": 10}
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    seen = 0
    started = 0.0
    while seen < RECORDS:
        messages = consumer.consume(1_000, timeout=5)
        started = started or time.perf_counter()
        seen += len(messages)
    rate = seen / (time.perf_counter() - started)
    consumer.close()
    return rate


def find_coordinators(bootstrap: str) -> float:
    """Round trips per second."""

    async def once(connection: BrokerConnection) -> None:
        answer: FindCoordinatorResponse = await connection.ask(
            FindCoordinatorRequest(key="bench"), FIND_COORDINATOR_VERSION
        )
        assert not answer.error_code

    return trio.run(_round_trips, bootstrap, once)


def heartbeats(bootstrap: str) -> float:
    """Heartbeat round trips per second of a settled member."""
    member_id = str(uuid.uuid4())
    epoch = 0

    async def once(connection: BrokerConnection) -> None:
        nonlocal epoch
        is_join = epoch == 0
        answer: ConsumerGroupHeartbeatResponse = await connection.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="bench",
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000 if is_join else -1,
                subscribed_topic_names=(TOPIC,) if is_join else None,
                topic_partitions=() if is_join else None,
            )
        )
        assert not answer.error_code, answer
        epoch = answer.member_epoch

    return trio.run(_round_trips, bootstrap, once)


async def _round_trips(
    bootstrap: str, once: Callable[[BrokerConnection], Awaitable[None]]
) -> float:
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    async with await BrokerConnection.open(host, int(port)) as connection:
        await once(connection)
        started = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            await once(connection)
        return ROUND_TRIPS / (time.perf_counter() - started)


def main() -> None:
    """Run everything and print it."""
    works = {"produce": produce, "consume": consume, "FindCoordinator": find_coordinators}
    direct: dict[str, list[float]] = {name: [] for name in works}
    through: dict[str, list[float]] = {name: [] for name in works}
    beats: list[float] = []
    for _ in range(RUNS):
        with mock_cluster() as upstream:
            for name, work in works.items():
                direct[name].append(work(upstream))
        with mock_cluster() as upstream, gateway(upstream) as bootstrap:
            for name, work in works.items():
                through[name].append(work(bootstrap))
            beats.append(heartbeats(bootstrap))
    for name in works:
        ratio = statistics.median(b / a for a, b in zip(direct[name], through[name], strict=True))
        sys.stdout.write(
            f"{name}: direct {statistics.median(direct[name]):,.0f}/s, "
            f"gateway {statistics.median(through[name]):,.0f}/s, ratio {ratio:.2f}\n"
        )
    sys.stdout.write(f"ConsumerGroupHeartbeat: {statistics.median(beats):,.0f}/s\n")


if __name__ == "__main__":
    main()
