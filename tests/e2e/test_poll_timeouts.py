"""A consumer whose application polls too late leaves its group, and the others soon have what it
had. What happens is what librdkafka's test 0089 and aiokafka's `test_max_poll_interval_ms` expect
of a broker.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer

from tests.support.group_client import fresh_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster
from tests.support.releases import with_new_protocol
from tests.support.serve_process import serving

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + 120)]

POLL_INTERVAL_S = 6
LATE_BY_S = 4.0
"""How much later the partitions may move: a heartbeat interval of 3 s, and a rebalance."""
RECORDS = 10
LIMIT_S = 60


def handed_over_by_librdkafka(bootstrap: str, topic: str) -> float:
    """The seconds until another consumer reads a record that the first one is stuck with."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "session.timeout.ms": 6_000,
        "max.poll.interval.ms": POLL_INTERVAL_S * 1_000,
        "auto.offset.reset": "earliest",
    }
    consumers = [Consumer(config), Consumer(config)]
    stuck: Consumer | None = None
    since_s = 0.0
    end_s = time.monotonic() + LIMIT_S
    try:
        for consumer in consumers:
            consumer.subscribe([topic])
        while time.monotonic() < end_s:
            for consumer in consumers:
                message = None if consumer is stuck else consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                if stuck is not None:
                    return time.monotonic() - since_s
                stuck, since_s = consumer, time.monotonic()
        raise AssertionError("nobody else got the record")
    finally:
        for consumer in consumers:
            consumer.close()


def handed_over_by_aiokafka(bootstrap: str, topic: str) -> float:
    """The seconds until a consumer has read all partitions, one of which another is stuck with."""

    async def measure() -> float:
        def consumer(name: str) -> AIOKafkaConsumer:
            return AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=topic,
                client_id=name,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=100,
                max_poll_interval_ms=POLL_INTERVAL_S * 1_000,
            )

        stuck, other = consumer("stuck"), consumer("other")
        try:
            for one in (stuck, other):
                await one.start()
                one.subscribe([topic])
            while not (stuck.assignment() and other.assignment()):
                await asyncio.sleep(0.1)  # its listeners do not report an assignment to both
            since_s = time.monotonic()
            for _ in range(PARTITIONS * RECORDS):
                await other.getone()
            return time.monotonic() - since_s
        finally:
            await other.stop()
            await stuck.stop()

    return asyncio.run(asyncio.wait_for(measure(), LIMIT_S))


@with_new_protocol()
@pytest.mark.parametrize("flags", [(), ("--groups-host=",)], ids=["hosted", "forwarded"])
@pytest.mark.parametrize(
    ("measure", "filled"), [(handed_over_by_librdkafka, 1), (handed_over_by_aiokafka, PARTITIONS)]
)
async def test_partitions_move_when_their_consumer_polls_too_late(
    kafka: KafkaCluster,
    tmp_path: Path,
    measure: Callable[[str, str], float],
    filled: int,
    flags: tuple[str, ...],
) -> None:
    """The partitions move within the time that it takes at a broker: the poll interval and one
    heartbeat."""
    topic = fresh_group("stuck")
    await kafka.make_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition in range(filled):
        for number in range(RECORDS):
            producer.produce(topic, f"{number}", partition=partition)
    assert not producer.flush(10)
    async with serving(kafka.bootstrap_servers, tmp_path, *flags) as gateway:
        took_s = await trio.to_thread.run_sync(measure, gateway.bootstrap, topic)
    # On a busy machine the member has not polled for a while when it is seen to own a partition.
    assert POLL_INTERVAL_S / 2 < took_s < POLL_INTERVAL_S + LATE_BY_S
