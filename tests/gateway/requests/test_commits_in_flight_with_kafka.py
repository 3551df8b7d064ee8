"""Commits under delay and loss: no committed offset goes back, and no new owner starts too early.

Real consumers commit continually while they come and go, some classic and some native, so that the
group converts back and forth. A proxy between gateway and cluster delays, cuts, and delivers late.
Nothing is consumed: the consumers only increase the offsets.

For a longer run, or to repeat a failed one: UNKIND_LENGTH_S=600 UNKIND_SEED=7 pytest -s THIS_FILE
"""

import os
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.gateway.requests.faulty_proxy import faulty_proxy, through_the_proxy
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, TOPIC, KafkaCluster
from tests.support.promises import promise

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LENGTH_S = float(os.environ.get("UNKIND_LENGTH_S", "12"))
SEED = int(os.environ.get("UNKIND_SEED", random.randrange(1 << 30)))
CONSUMERS = 3
STAY_S = (1.5, 6.0)
"""The longest time that a consumer stays before it leaves and returns."""
COMMITS_MIN = 40
CUTS_MIN = 8
PATIENCE_S = 60
"""How much longer than LENGTH_S a busy machine may take for them."""
FETCH_LIMIT_S = 10


class Ledger:
    """Acknowledged offsets, which a new owner must not miss."""

    def __init__(self, fates: Counter[str]) -> None:
        """`fates`: what became of the requests that the proxy cut."""
        self.fates = fates
        self.lock = threading.Lock()
        self.acknowledged: defaultdict[int, int] = defaultdict(lambda: -1)
        self.commits = 0
        self.starts = 0
        self.wrong: list[str] = []
        self.ends_at_s = time.monotonic() + LENGTH_S

    def is_complete(self) -> bool:
        """Whether the time is over, and enough has happened."""
        left_s = self.ends_at_s - time.monotonic()
        enough = self.commits >= COMMITS_MIN and sum(self.fates.values()) >= CUTS_MIN
        return left_s <= (0 if enough else -PATIENCE_S)

    def record_commit(self, partition: int, offset: int) -> None:
        """The gateway acknowledged this offset."""
        with self.lock:
            self.commits += 1
            before = self.acknowledged[partition]
            if offset <= before:
                self.wrong.append(f"{partition} was committed at {offset}, after {before}")
            self.acknowledged[partition] = max(before, offset)

    def record_start(self, partition: int, offset: int, acknowledged: int) -> None:
        """A new owner received this offset after that one was acknowledged."""
        with self.lock:
            self.starts += 1
            if offset < acknowledged:
                self.wrong.append(f"{partition} started from {offset}, not {acknowledged}")


def committing_consumer(
    servers: str, group: str, protocol: str, ledger: Ledger, until_s: float
) -> None:
    """Commit the next offset of each owned partition, repeatedly."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "socket.timeout.ms": 10_000,
        }
    )
    positions: dict[int, int] = {}
    started: set[int] = set()

    def on_assign(_: Consumer, assigned: list[TopicPartition]) -> None:
        positions.update(
            {
                partition.partition: -1
                for partition in assigned
                if partition.partition not in positions
            }
        )

    def on_gone(_: Consumer, gone: list[TopicPartition]) -> None:
        for partition in gone:
            positions.pop(partition.partition, None)
            started.discard(partition.partition)

    consumer.subscribe([TOPIC], on_assign=on_assign, on_revoke=on_gone, on_lost=on_gone)
    while time.monotonic() < until_s:
        consumer.poll(0.02)
        for partition in list(positions):
            try:
                if partition not in started:
                    acknowledged = ledger.acknowledged[partition]
                    asked = [TopicPartition(TOPIC, partition)]
                    (position,) = consumer.committed(asked, FETCH_LIMIT_S)
                    if position.error is not None:
                        continue
                    positions[partition] = max(position.offset, -1)  # -1001 means none
                    ledger.record_start(partition, positions[partition], acknowledged)
                    started.add(partition)
                positions[partition] += 1
                offset = positions[partition]
                consumer.commit(
                    offsets=[TopicPartition(TOPIC, partition, offset)], asynchronous=False
                )
                ledger.record_commit(partition, offset)
            except KafkaException:
                continue  # retry with the next offset
    consumer.close()


def come_and_go(servers: str, group: str, ledger: Ledger, seed: int) -> None:
    """Run consumers of either protocol one after the other, until the end."""
    dice = random.Random(seed)
    while not ledger.is_complete():
        until_s = time.monotonic() + dice.uniform(*STAY_S)
        protocol = dice.choice(("classic", "consumer"))
        committing_consumer(servers, group, protocol, ledger, until_s)


@pytest.mark.timeout(FETCH_TIMEOUT_S + LENGTH_S + PATIENCE_S)
async def test_no_offset_goes_back_and_no_owner_starts_before_an_acknowledged_commit(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test watches the cluster continually, and every new owner."""
    group = fresh_group("unkind")
    seen: defaultdict[int, int] = defaultdict(lambda: -1)
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(faulty_proxy(monkeypatch, kafka.addresses, SEED))
        ledger = Ledger(proxy.fates)
        with through_the_proxy():
            gateway = await stack.enter_async_context(whole_gateway(kafka.addresses))
        direct = await stack.enter_async_context(group_client(kafka.addresses[0], group))

        over = trio.Event()

        async def watch() -> None:
            while not over.is_set():
                for partition, offset in (
                    await direct.fetch_offsets(partitions=PARTITIONS)
                ).items():
                    if offset < seen[partition]:
                        ledger.wrong.append(f"{partition} went back: {seen[partition]} {offset}")
                    seen[partition] = offset
                await trio.sleep(0.02)

        async with trio.open_nursery() as watching:
            watching.start_soon(watch)
            async with trio.open_nursery() as consuming:
                for number in range(CONSUMERS):
                    consuming.start_soon(
                        trio.to_thread.run_sync,
                        come_and_go,
                        gateway.bootstrap_servers,
                        group,
                        ledger,
                        SEED + number,
                    )
            over.set()
        stored = await direct.fetch_offsets(partitions=PARTITIONS)
    context = f"seed {SEED}: {ledger.commits} commits, {ledger.starts} starts, {proxy.fates}"
    print(context)
    promise(not ledger.wrong, f"{ledger.wrong}; {context}")
    promise(
        all(stored[number] >= offset for number, offset in ledger.acknowledged.items()), context
    )
    assert ledger.commits >= COMMITS_MIN, context
    assert sum(proxy.fates.values()) >= CUTS_MIN, context
