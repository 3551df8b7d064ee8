"""What aiokafka's own tests try with a broker. Its sdist does not have them.

    python aiokafka_scenarios.py BOOTSTRAP

Prints the outcome of each scenario as pytest does.
"""

import asyncio
import itertools
import os
import re
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    IllegalGenerationError,
    IllegalOperation,
    IllegalStateError,
    KafkaError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    ProducerFenced,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

LIMIT_S = 60
PARTITIONS = 2
Scenario = Callable[["Stage"], Awaitable[None]]
SCENARIOS: list[tuple[str, Scenario]] = []


def scenario(run: Scenario) -> Scenario:
    """Add a scenario."""
    SCENARIOS.append((run.__name__, run))
    return run


class NotRefusedError(Exception):
    """What should have failed did not."""


@asynccontextmanager
async def raising(*kinds: type[Exception]) -> AsyncIterator[None]:
    """Expect one of these errors within the block."""
    try:
        yield
    except kinds:
        return
    raise NotRefusedError(f"none of {kinds}")


class Stage:
    """A topic of two partitions, and a group, for one scenario."""

    _numbers = itertools.count(1)

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.topic = f"aiokafka-{os.getpid()}-{next(self._numbers)}"
        self.group = f"group-{self.topic}"
        self.partitions = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        self._open: list[Any] = []

    async def make_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        admin = await self.admin()
        await admin.create_topics([NewTopic(name, partitions, 1)])
        consumer = await self.consumer(group=None)
        while len(consumer.partitions_for_topic(name) or ()) < partitions:
            await consumer._client.force_metadata_update()
            consumer._client.add_topic(name)
            await asyncio.sleep(0.05)

    async def admin(self) -> AIOKafkaAdminClient:
        return await self._start(AIOKafkaAdminClient(bootstrap_servers=self.servers))

    async def producer(self, **options: Any) -> AIOKafkaProducer:
        return await self._start(AIOKafkaProducer(bootstrap_servers=self.servers, **options))

    async def consumer(
        self, *topics: str, group: str | None = "", **options: Any
    ) -> AIOKafkaConsumer:
        chosen = {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 100,
            "heartbeat_interval_ms": 300,
            "metadata_max_age_ms": 500,
            **options,
        }
        group_id = self.group if group == "" else group
        return await self._start(
            AIOKafkaConsumer(*topics, bootstrap_servers=self.servers, group_id=group_id, **chosen)
        )

    async def _start(self, client: Any) -> Any:
        self._open.append(client)
        await client.start()
        return client

    async def send(self, count: int = 10, **options: Any) -> list[Any]:
        """Write numbers, in turn to each partition. Returns what was stored of them."""
        producer = await self.producer(**options)
        return [
            await producer.send_and_wait(self.topic, b"%d" % number, partition=number % PARTITIONS)
            for number in range(count)
        ]

    async def close(self) -> None:
        for client in reversed(self._open):
            await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


async def read(consumer: AIOKafkaConsumer, count: int) -> list[int]:
    """This many values, in order."""
    return sorted([int((await consumer.getone()).value) for _ in range(count)])


async def until(is_so: Callable[[], Any]) -> None:
    while not is_so():
        await asyncio.sleep(0.05)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Remembers each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.calls.append(("assigned", len(assigned)))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls.append(("revoked", len(revoked)))


# Groups.


@scenario
async def a_group_reads_everything(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    assert await read(consumer, 10) == list(range(10))
    assert consumer.assignment() == set(stage.partitions)


@scenario
async def getmany_takes_what_is_there(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    seen = 0
    while seen < 10:
        polled = await consumer.getmany(timeout_ms=1000, max_records=3)
        assert sum(map(len, polled.values())) <= 3
        seen += sum(map(len, polled.values()))


@scenario
async def getone_of_a_partition(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    values = [int((await consumer.getone(stage.partitions[1])).value) for _ in range(5)]
    assert values == [1, 3, 5, 7, 9]
    polled = await consumer.getmany(stage.partitions[0], timeout_ms=5000)
    assert set(polled) == {stage.partitions[0]}


@scenario
async def iteration(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    seen = 0
    async for _ in consumer:
        seen += 1
        if seen == 10:
            break


@scenario
async def positions_are_committed_by_hand(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    assert await consumer.committed(stage.partitions[0]) is None
    await consumer.commit()
    assert [await consumer.committed(one) for one in stage.partitions] == [5, 5]
    await consumer.commit({stage.partitions[0]: 2})
    assert await consumer.committed(stage.partitions[0]) == 2


@scenario
async def positions_are_committed_in_the_background(stage: Stage) -> None:
    await stage.send()
    first = await stage.consumer(stage.topic, enable_auto_commit=True, auto_commit_interval_ms=200)
    await read(first, 10)
    while [await first.committed(one) for one in stage.partitions] != [5, 5]:
        await asyncio.sleep(0.1)


@scenario
async def positions_are_committed_at_the_end(stage: Stage) -> None:
    await stage.send()
    first = await stage.consumer(
        stage.topic, enable_auto_commit=True, auto_commit_interval_ms=60_000
    )
    await read(first, 10)
    await first.stop()
    second = await stage.consumer(stage.topic)
    assert [await second.committed(one) for one in stage.partitions] == [5, 5]


@scenario
async def a_commit_has_metadata(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    await consumer.commit({stage.partitions[0]: (3, "some text"), stage.partitions[1]: 1})
    admin = await stage.admin()
    offsets = await admin.list_consumer_group_offsets(stage.group)
    assert offsets[stage.partitions[0]] == (3, "some text")
    assert offsets[stage.partitions[1]] == (1, "")


@scenario
async def a_commit_of_a_partition_that_it_has_not(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    async with raising(IllegalStateError):
        await consumer.commit({TopicPartition("other", 0): 1})


@scenario
async def a_consumer_without_group_cannot_commit(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic, group=None)
    assert await read(consumer, 10) == list(range(10))
    async with raising(IllegalOperation):
        await consumer.commit()


@scenario
async def a_consumer_goes_on_where_another_has_committed(stage: Stage) -> None:
    await stage.send()
    first = await stage.consumer(stage.topic)
    await read(first, 10)
    await first.commit({stage.partitions[0]: 4, stage.partitions[1]: 5})
    await first.stop()
    second = await stage.consumer(stage.topic)
    assert await read(second, 1) == [8]


@scenario
async def two_members_share_the_partitions(stage: Stage) -> None:
    first = await stage.consumer(stage.topic)
    second = await stage.consumer(stage.topic)
    await until(lambda: len(first.assignment()) == 1 and len(second.assignment()) == 1)
    assert first.assignment() | second.assignment() == set(stage.partitions)
    await second.stop()
    await until(lambda: first.assignment() == set(stage.partitions))


@scenario
async def a_third_member_of_two_partitions_has_none(stage: Stage) -> None:
    members = [await stage.consumer(stage.topic) for _ in range(3)]
    await until(lambda: sorted(len(one.assignment()) for one in members) == [0, 1, 1])


@scenario
async def round_robin(stage: Stage) -> None:
    strategy: dict[str, Any] = {"partition_assignment_strategy": (RoundRobinPartitionAssignor,)}
    members = [await stage.consumer(stage.topic, **strategy) for _ in range(2)]
    await until(lambda: [len(one.assignment()) for one in members] == [1, 1])


@scenario
async def sticky(stage: Stage) -> None:
    strategy: dict[str, Any] = {"partition_assignment_strategy": (StickyPartitionAssignor,)}
    members = [await stage.consumer(stage.topic, **strategy) for _ in range(2)]
    await until(lambda: [len(one.assignment()) for one in members] == [1, 1])
    await members[0].stop()
    await until(lambda: len(members[1].assignment()) == PARTITIONS)


@scenario
async def a_listener_hears_of_rebalances(stage: Stage) -> None:
    listener = Listener()
    consumer = await stage.consumer()
    consumer.subscribe([stage.topic], listener=listener)
    await until(lambda: ("assigned", 2) in listener.calls)
    await stage.consumer(stage.topic)
    await until(lambda: ("revoked", 2) in listener.calls and ("assigned", 1) in listener.calls)


@scenario
async def a_static_member_keeps_its_partitions(stage: Stage) -> None:
    static: dict[str, Any] = {"group_instance_id": "first", "session_timeout_ms": 30_000}
    first = await stage.consumer(stage.topic, **static)
    second = await stage.consumer(stage.topic, group_instance_id="second")
    await until(lambda: len(first.assignment()) == 1 and len(second.assignment()) == 1)
    had = first.assignment()
    await first.stop()
    again = await stage.consumer(stage.topic, **static)
    await until(lambda: again.assignment() == had)


@scenario
async def more_topics_are_subscribed(stage: Stage) -> None:
    other = f"{stage.topic}-other"
    await stage.make_topic(other)
    consumer = await stage.consumer(stage.topic)
    await until(lambda: len(consumer.assignment()) == 2)
    consumer.subscribe([stage.topic, other])
    await until(lambda: len(consumer.assignment()) == 4)
    assert consumer.subscription() == {stage.topic, other}


@scenario
async def a_pattern_is_subscribed(stage: Stage) -> None:
    consumer = await stage.consumer()
    consumer.subscribe(pattern=f"^{re.escape(stage.topic)}.*$")
    await until(lambda: len(consumer.assignment()) == 2)
    await stage.make_topic(f"{stage.topic}-more")
    await until(lambda: len(consumer.assignment()) == 4)


@scenario
async def a_topic_is_unsubscribed(stage: Stage) -> None:
    first, second = [await stage.consumer(stage.topic) for _ in range(2)]
    await until(lambda: len(first.assignment()) == 1 and len(second.assignment()) == 1)
    first.unsubscribe()
    assert first.assignment() == set()
    await until(lambda: len(second.assignment()) == 2)
    first.subscribe([stage.topic])
    await until(lambda: len(first.assignment()) == 1)


@scenario
async def partitions_are_added_to_a_topic(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    await until(lambda: len(consumer.assignment()) == 2)
    await (await stage.admin()).create_partitions({stage.topic: NewPartitions(4)})
    await until(lambda: len(consumer.assignment()) == 4)


@scenario
async def a_topic_is_made_after_its_subscription(stage: Stage) -> None:
    topic = f"{stage.topic}-later"
    pattern = await stage.consumer()
    pattern.subscribe(pattern=f"^{re.escape(topic)}$")
    await stage.make_topic(topic)
    await until(lambda: len(pattern.assignment()) == 2)


@scenario
async def a_member_without_polls_leaves(stage: Stage) -> None:
    await stage.send()
    slow = await stage.consumer(stage.topic, max_poll_interval_ms=1_000, max_poll_records=1)
    await slow.getone()
    other = await stage.consumer(stage.topic)
    await until(lambda: len(other.assignment()) == 2)
    await read(slow, 1)
    await until(lambda: len(other.assignment()) == 1)


@scenario
async def a_member_that_was_removed_joins_again(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    await until(lambda: len(consumer.assignment()) == 2)
    before = consumer._coordinator.member_id
    consumer._coordinator.member_id = "nobody"
    await until(lambda: consumer._coordinator.member_id not in ("nobody", before, ""))
    await until(lambda: len(consumer.assignment()) > 0)


@scenario
async def a_commit_of_an_old_generation_fails(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic, heartbeat_interval_ms=3_000)
    await read(consumer, 10)
    consumer._coordinator.generation -= 1
    async with raising(IllegalGenerationError, UnknownMemberIdError, KafkaError):
        await consumer.commit()


@scenario
async def assigned_partitions_commit_without_members(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer()
    consumer.assign(stage.partitions)
    assert await read(consumer, 10) == list(range(10))
    await consumer.commit()
    assert [await consumer.committed(one) for one in stage.partitions] == [5, 5]


@scenario
async def assignment_and_subscription_exclude_each_other(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    async with raising(IllegalStateError):
        consumer.assign(stage.partitions)


# Positions.


@scenario
async def seeks(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    consumer.seek(stage.partitions[0], 3)
    assert await read(consumer, 2) == [6, 8]
    assert await consumer.position(stage.partitions[0]) == 5


@scenario
async def seeks_to_beginning_and_end(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    await consumer.seek_to_beginning(stage.partitions[1])
    assert await read(consumer, 5) == [1, 3, 5, 7, 9]
    await consumer.seek_to_beginning()
    await consumer.seek_to_end()
    assert [await consumer.position(one) for one in stage.partitions] == [5, 5]


@scenario
async def seeks_to_committed(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    await consumer.commit({stage.partitions[0]: 4, stage.partitions[1]: 4})
    assert await consumer.seek_to_committed() == dict.fromkeys(stage.partitions, 4)
    assert await read(consumer, 2) == [8, 9]


@scenario
async def offsets_for_times(stage: Stage) -> None:
    stored = await stage.send()
    consumer = await stage.consumer(stage.topic)
    offsets = await consumer.offsets_for_times({stage.partitions[0]: stored[4].timestamp})
    assert offsets[stage.partitions[0]].offset <= 2
    never = await consumer.offsets_for_times({stage.partitions[0]: stored[9].timestamp + 10**9})
    assert never[stage.partitions[0]] is None


@scenario
async def first_and_last_offsets(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    assert await consumer.beginning_offsets(stage.partitions) == dict.fromkeys(stage.partitions, 0)
    assert await consumer.end_offsets(stage.partitions) == dict.fromkeys(stage.partitions, 5)


@scenario
async def a_group_begins_at_the_end(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic, auto_offset_reset="latest")
    assert [await consumer.position(one) for one in stage.partitions] == [5, 5]


@scenario
async def a_group_without_offsets_fails(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic, auto_offset_reset="none")
    async with raising(NoOffsetForPartitionError):
        await consumer.getone()


@scenario
async def an_offset_out_of_range_fails(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic, auto_offset_reset="none")
    await consumer.commit(dict.fromkeys(stage.partitions, 0))
    await until(consumer.assignment)
    consumer.seek(stage.partitions[0], 1_000)
    async with raising(OffsetOutOfRangeError):
        await consumer.getone(stage.partitions[0])


@scenario
async def partitions_pause(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await until(lambda: len(consumer.assignment()) == 2)
    consumer.pause(stage.partitions[0])
    assert await read(consumer, 5) == [1, 3, 5, 7, 9]
    assert consumer.paused() == {stage.partitions[0]}
    consumer.resume(stage.partitions[0])
    assert await read(consumer, 5) == [0, 2, 4, 6, 8]


@scenario
async def positions_of_the_broker_are_known(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    assert [consumer.highwater(one) for one in stage.partitions] == [5, 5]


@scenario
async def topics_are_listed(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    assert stage.topic in await consumer.topics()
    assert consumer.partitions_for_topic(stage.topic) == {0, 1}


# Producers.


@scenario
async def records_have_keys_headers_and_times(stage: Stage) -> None:
    producer, written_ms = await stage.producer(), time.time_ns() // 1_000_000 - 1_000
    stored = await producer.send_and_wait(
        stage.topic, b"1", key=b"key", partition=0, timestamp_ms=written_ms, headers=[("h", b"x")]
    )
    consumer = await stage.consumer(stage.topic)
    record = await consumer.getone()
    assert (record.key, record.headers, record.timestamp) == (b"key", (("h", b"x"),), written_ms)
    assert record.offset == stored.offset == 0


@scenario
async def gzip(stage: Stage) -> None:
    await stage.send(compression_type="gzip")
    assert await read(await stage.consumer(stage.topic), 10) == list(range(10))


@scenario
async def every_kind_of_acknowledgement(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    for acks in (0, 1, "all"):
        await stage.send(acks=acks)
        assert await read(consumer, 10) == list(range(10))


@scenario
async def batches_are_sent(stage: Stage) -> None:
    producer = await stage.producer()
    batch = producer.create_batch()
    for number in range(10):
        batch.append(key=None, value=b"%d" % number, timestamp=None)
    await (await producer.send_batch(batch, stage.topic, partition=1))
    consumer = await stage.consumer(stage.topic)
    assert await read(consumer, 10) == list(range(10))


@scenario
async def records_linger_and_are_flushed(stage: Stage) -> None:
    producer = await stage.producer(linger_ms=2_000)
    sent = [await producer.send(stage.topic, b"%d" % number) for number in range(10)]
    await producer.flush()
    assert all(one.done() for one in sent)


@scenario
async def an_idempotent_producer(stage: Stage) -> None:
    await stage.send(100, enable_idempotence=True)
    consumer = await stage.consumer(stage.topic)
    assert await read(consumer, 100) == list(range(100))


@scenario
async def a_record_that_is_too_large(stage: Stage) -> None:
    producer = await stage.producer(max_request_size=3_000_000)
    async with raising(MessageSizeTooLargeError):
        await producer.send_and_wait(stage.topic, b"x" * 2_000_000)


@scenario
async def the_partitions_of_a_topic(stage: Stage) -> None:
    assert await (await stage.producer()).partitions_for(stage.topic) == {0, 1}


# Transactions.


@scenario
async def a_transaction_is_committed(stage: Stage) -> None:
    producer = await stage.producer(transactional_id=stage.group)
    consumer = await stage.consumer(stage.topic, isolation_level="read_committed")
    async with producer.transaction():
        await producer.send_and_wait(stage.topic, b"1", partition=0)
        await producer.send_and_wait(stage.topic, b"2", partition=1)
    assert await read(consumer, 2) == [1, 2]


@scenario
async def a_transaction_is_aborted(stage: Stage) -> None:
    producer = await stage.producer(transactional_id=stage.group)
    await producer.begin_transaction()
    await producer.send_and_wait(stage.topic, b"1", partition=0)
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send_and_wait(stage.topic, b"2", partition=0)
    committed = await stage.consumer(stage.topic, isolation_level="read_committed")
    assert await read(committed, 1) == [2]
    everything = await stage.consumer(stage.topic, group=None)
    assert await read(everything, 2) == [1, 2]


@scenario
async def offsets_are_committed_in_a_transaction(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    producer = await stage.producer(transactional_id=stage.group)
    async with producer.transaction():
        await producer.send_offsets_to_transaction(dict.fromkeys(stage.partitions, 5), stage.group)
    # A transaction has ended for its producer before its markers are written.
    while [await consumer.committed(one) for one in stage.partitions] != [5, 5]:
        await asyncio.sleep(0.05)


@scenario
async def offsets_of_an_aborted_transaction_are_none(stage: Stage) -> None:
    await stage.send()
    consumer = await stage.consumer(stage.topic)
    await read(consumer, 10)
    producer = await stage.producer(transactional_id=stage.group)
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction(dict.fromkeys(stage.partitions, 5), stage.group)
    await producer.abort_transaction()
    assert await consumer.committed(stage.partitions[0]) is None


@scenario
async def a_second_producer_fences_the_first(stage: Stage) -> None:
    first = await stage.producer(transactional_id=stage.group)
    await first.begin_transaction()
    await first.send_and_wait(stage.topic, b"1")
    second = await stage.producer(transactional_id=stage.group)
    async with second.transaction():
        await second.send_and_wait(stage.topic, b"2")
    async with raising(ProducerFenced, KafkaError):
        await first.send_and_wait(stage.topic, b"3")
        await first.commit_transaction()


# Admin clients.


@scenario
async def topics_are_made_and_deleted(stage: Stage) -> None:
    admin, name = await stage.admin(), f"{stage.topic}-made"
    await admin.create_topics([NewTopic(name, 1, 1)])
    while name not in await admin.list_topics():
        await asyncio.sleep(0.05)
    again = await admin.create_topics([NewTopic(name, 1, 1)])
    assert again.topic_errors[0][1] == TopicAlreadyExistsError.errno
    await admin.delete_topics([name])
    while name in await admin.list_topics():
        await asyncio.sleep(0.05)


@scenario
async def a_cluster_is_described(stage: Stage) -> None:
    described = await (await stage.admin()).describe_cluster()
    assert described["brokers"]


@scenario
async def topics_are_described(stage: Stage) -> None:
    (described,) = await (await stage.admin()).describe_topics([stage.topic])
    assert len(described["partitions"]) == PARTITIONS


@scenario
async def configs_are_changed(stage: Stage) -> None:
    admin = await stage.admin()
    await admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, stage.topic, {"retention.ms": "123456"})]
    )
    while True:
        (answer,) = await admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, stage.topic)]
        )
        values = {entry[0]: entry[1] for entry in answer.resources[0][4]}
        if values["retention.ms"] == "123456":
            return
        await asyncio.sleep(0.05)


@scenario
async def a_group_is_described(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    await until(lambda: len(consumer.assignment()) == 2)
    admin = await stage.admin()
    (answer,) = await admin.describe_consumer_groups([stage.group])
    (group,) = answer.groups
    assert group[:5] == (0, stage.group, "Stable", "consumer", "roundrobin")
    assert len(group[5]) == 1


@scenario
async def groups_are_listed(stage: Stage) -> None:
    consumer = await stage.consumer(stage.topic)
    await until(lambda: len(consumer.assignment()) == 2)
    listed = await (await stage.admin()).list_consumer_groups()
    assert (stage.group, "consumer") in [one[:2] for one in listed]


@scenario
async def a_coordinator_is_found(stage: Stage) -> None:
    admin = await stage.admin()
    while True:
        try:
            assert await admin.find_coordinator(stage.group) >= 0
        except GroupCoordinatorNotAvailableError:
            await asyncio.sleep(0.1)
        else:
            return


@scenario
async def records_are_deleted(stage: Stage) -> None:
    await stage.send()
    admin, first = await stage.admin(), stage.partitions[0]
    assert await admin.delete_records({first: RecordsToDelete(before_offset=3)}) == {first: 3}
    consumer = await stage.consumer(stage.topic)
    assert (await consumer.beginning_offsets([first])) == {first: 3}


@scenario
async def the_offsets_of_a_group_without_members(stage: Stage) -> None:
    consumer = await stage.consumer()
    consumer.assign(stage.partitions)
    await consumer.commit({stage.partitions[0]: 7})
    await consumer.stop()
    offsets = await (await stage.admin()).list_consumer_group_offsets(stage.group)
    assert offsets[stage.partitions[0]].offset == 7


async def play(name: str, run: Scenario, servers: str) -> None:
    """Play a scenario, and print its outcome."""
    stage = Stage(servers)
    try:
        async with asyncio.timeout(LIMIT_S):
            await stage.make_topic(stage.topic)
            await run(stage)
            await stage.close()
    except UnsupportedVersionError:
        outcome = "SKIPPED"
    except Exception:
        traceback.print_exc()
        outcome = "FAILED"
    else:
        outcome = "PASSED"
    print(f"aiokafka_scenarios.py::{name} {outcome}", flush=True)


async def main(servers: str) -> None:
    """Play all scenarios, one after the other."""
    for name, run in SCENARIOS:
        await play(name, run, servers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
