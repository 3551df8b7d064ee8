"""Real clients cannot use the topics of the gateway's state and events, on real Kafka."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from gateway.demo import reports
from gateway.demo.reports import ConsumedReport
from tests.support.clients import Client, run_client
from tests.support.group_client import fresh_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.kafka_release import QUICK_START, kafka_release
from tests.support.releases import NEWEST, with_new_protocol
from tests.support.serve_process import serving

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

STATE, EVENTS = "private-state", "private-events"
READERS, READ_BESIDE = "readers-of-events", "events-read-beside"
LIMIT_S = 20
REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED
NOT_SENT = KafkaError._NOENT
"""The client knows no leader of a topic that it may not describe."""


def codes(futures: dict[Any, Future[Any]]) -> set[int]:
    """The answer to each request."""
    codes = set()
    for future in futures.values():
        try:
            future.result()
        except KafkaException as error:
            codes.add(error.args[0].code())
        else:
            codes.add(0)
    return codes


def admin_commands(admin: AdminClient, topic: str) -> list[Callable[[], dict[Any, Future[Any]]]]:
    """Each of these requests changes or reads the topic."""
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    partition = TopicPartition(topic, 0, 0)
    return [
        lambda: admin.delete_topics([topic]),
        lambda: admin.create_topics([NewTopic(topic, 1, 1)]),
        lambda: admin.create_partitions([NewPartitions(topic, 9)]),
        lambda: admin.delete_records([partition]),
        lambda: admin.incremental_alter_configs([resource]),
        lambda: admin.list_offsets({partition: OffsetSpec.latest()}),  # type: ignore[no-untyped-call]
    ]


def produce_to(bootstrap: str, *topics: str) -> dict[str, int]:
    """The answers to one producer's records for each topic."""
    answers: dict[str, int] = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        answers[message.topic() or ""] = error.code() if error else 0

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100})
    for topic in topics:
        producer.produce(topic, b"v", b"k", partition=0, on_delivery=on_delivery)
    producer.flush(LIMIT_S)
    return answers


def fetch_from(bootstrap: str, topic: str, limit_s: float = LIMIT_S) -> int | None:
    """The first answer to a reader of the topic's first partition, None if it waits in vain."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "r", "auto.offset.reset": "error"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        message = consumer.poll(limit_s)
        if message is None:
            return None
        error = message.error()
        return error.code() if error else 0
    finally:
        consumer.close()


def init_transactions(bootstrap: str, transactional_id: str) -> None:
    """Fence the user of this transactional id."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    Producer(config).init_transactions(LIMIT_S)


async def test_no_client_can_use_the_gateways_topics(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Its writer cannot be fenced either. Other topics are served as usual."""
    flags = ("--state=kafka", f"--state-topic={STATE}", f"--events-topic={EVENTS}")
    async with serving(kafka.bootstrap_servers, tmp_path, *flags) as gateway:
        run = trio.to_thread.run_sync
        bootstrap = gateway.bootstrap
        for topic in (STATE, EVENTS):
            admin = AdminClient({"bootstrap.servers": bootstrap})
            for command in admin_commands(admin, topic):
                assert codes(await run(command)) <= {REFUSED, NOT_SENT}
            assert await run(produce_to, bootstrap, topic, TOPIC) == {topic: REFUSED, TOPIC: 0}
            # librdkafka does not report that it may not describe the topic, and sends no Fetch.
            assert await run(fetch_from, bootstrap, topic, 3) in {None, REFUSED}
        assert await run(fetch_from, bootstrap, TOPIC) == 0
        with pytest.raises(KafkaException) as refused:
            await run(init_transactions, bootstrap, f"{STATE}-0")
        assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert not gateway.events("state_log_lost")


def commit(bootstrap: str, *topics: str) -> None:
    """Commit an offset of each topic in a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": READERS})
    offsets = [TopicPartition(topic, 0, 0) for topic in topics]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def topics_with_offsets(bootstrap: str) -> set[str]:
    """The topics that a tool lists as those of the group."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = ConsumerGroupTopicPartitions(READERS)
    (listed,) = admin.list_consumer_group_offsets([request]).values()
    return {partition.topic for partition in listed.result(LIMIT_S).topic_partitions}


async def test_offsets_of_the_gateways_topics_are_not_listed(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A group may read the events without the gateway. An exporter that lists all offsets of a
    group then asks for the ends of its topics."""
    flags = (f"--events-topic={READ_BESIDE}",)
    async with serving(kafka.bootstrap_servers, tmp_path, *flags) as gateway:
        run = trio.to_thread.run_sync
        await run(commit, kafka.bootstrap_servers, TOPIC, READ_BESIDE)
        assert await run(topics_with_offsets, kafka.bootstrap_servers) == {TOPIC, READ_BESIDE}
        assert await run(topics_with_offsets, gateway.bootstrap) == {TOPIC}


@with_new_protocol()
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_kafkas_tool_describes_a_group_that_reads_the_events(
    kafka: KafkaCluster, tmp_path: Path, protocol: str
) -> None:
    """The tool asks for the ends of all partitions that members have, and ends at the first
    refusal."""
    events = f"events-of-{protocol}"
    tool = kafka_release(NEWEST, (*QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"))
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": events,
        "group.protocol": protocol,
    }
    async with serving(kafka.bootstrap_servers, tmp_path, f"--events-topic={events}") as gateway:
        reader = Consumer(config)
        reader.subscribe([events, TOPIC])
        with trio.fail_after(LIMIT_S):
            while {partition.topic for partition in reader.assignment()} != {events, TOPIC}:
                await trio.to_thread.run_sync(reader.poll, 0.1)
        shown = await trio.run_process(
            tool.command(
                *("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe"),
                *("--bootstrap-server", gateway.bootstrap, "--group", events),
            ),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        await trio.to_thread.run_sync(reader.close)
    lines = [line.split() for line in (shown.stdout + shown.stderr).decode().splitlines() if line]
    heading, *rows = lines
    assert heading[:2] == ["GROUP", "TOPIC"]
    assert {row[1] for row in rows} == {TOPIC}


@with_new_protocol()
async def test_java_reads_the_topics_of_a_pattern_that_matches_the_gateways(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The cluster resolves the pattern, and assigns the state and the events as well."""
    public, events = "matched-orders", "matched-events"
    await kafka.make_topic(public)
    await kafka.make_topic(events)  # its id is known from the start
    flags = (
        *("--state=kafka", "--state-topic=matched-state", f"--events-topic={events}"),
        "--groups-forward=*",
    )
    java = Client(library="java", protocol="consumer")
    read = trio.Event()

    def hear(line: str) -> None:
        report = reports.decode(line)
        if isinstance(report, ConsumedReport) and any(report.runs):
            read.set()

    async with (
        serving(kafka.bootstrap_servers, tmp_path, *flags) as gateway,
        trio.open_nursery() as nursery,
    ):
        assert await trio.to_thread.run_sync(record_number, kafka.bootstrap_servers, public) == 0
        arguments = [
            *(f"--bootstrap={gateway.bootstrap}", "--topic=^matched-.*"),
            f"--group={fresh_group('matched')}",
        ]
        run = partial(run_client, java, arguments, name="reader", on_line=hear)
        process = await nursery.start(run)
        with trio.fail_after(2 * LIMIT_S):
            await read.wait()
        await process.close()


def record_number(bootstrap: str, topic: str) -> int | None:
    """Produce the record 0. Returns the code of the answer."""
    answers: list[int] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        answers.append(error.code() if error else 0)

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"0", on_delivery=on_delivery)
    producer.flush(LIMIT_S)
    return answers[0] if answers else None
