"""Events in a topic of a real cluster."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from structlog.testing import capture_logs

from gateway.journal import events_topic
from gateway.journal.events_topic import PARTITIONS, EventsTopicError, open_events_topic
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import NEWEST, on_release
from tests.support.serve_process import serving
from tests.support.until import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LIMIT_S = 90


def read_all(cluster: KafkaCluster, topic: str, partitions: int, count: int) -> list[Message]:
    """Read this many records of a topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    consumer.assign(
        [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
    )
    messages: list[Message] = []
    while len(messages) < count:
        message = consumer.poll(20)
        assert message is not None, f"{len(messages)} of {count} records"
        assert message.error() is None
        messages.append(message)
    consumer.close()
    return messages


def of_group(group_id: str | None, lines: Sequence[str]) -> list[str]:
    """The lines about this group in order."""
    return [line for line in lines if json.loads(line)["group_id"] == group_id]


async def test_the_topic_has_the_lines_of_the_files(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The topic is created. Each group's lines are in order, with the group as key."""
    topic = fresh_group("events")
    groups = [fresh_group("told"), fresh_group("told-too")]
    with trio.fail_after(LIMIT_S):
        flag = f"--events-topic={topic}"
        async with serving(kafka.bootstrap_servers, tmp_path, flag) as gateway:
            for group in groups:
                async with group_client(gateway.address, group) as client:
                    assert (await client.native("n")).error_code == 0
                    await client.native("n", -1)
            assert await gateway.terminate() == 0
        assert not [line for line in gateway.log if line["event"].startswith("events_topic")]
        (file,) = (tmp_path / "events").iterdir()
        lines = file.read_text().splitlines()
        messages = await trio.to_thread.run_sync(read_all, kafka, topic, PARTITIONS, len(lines))
    values = [(message.value() or b"").decode() for message in messages]
    assert sorted(values) == sorted(lines)
    for message, value in zip(messages, values, strict=True):
        group_id = json.loads(value)["group_id"]
        assert message.key() == (None if group_id is None else group_id.encode())
    for group in groups:
        assert of_group(group, values) == of_group(group, lines)
        assert len(of_group(group, lines)) > 3


async def test_a_compacted_topic_is_refused(kafka: KafkaCluster) -> None:
    """Compaction would keep one line per group."""
    topic = fresh_group("compacted")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    wanted = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([wanted])[topic].result()
    with pytest.raises(EventsTopicError, match=r"cleanup\.policy=compact"):
        async with open_events_topic(kafka.addresses, topic):
            pytest.fail("it was taken")


@on_release(NEWEST, "one_broker")
async def test_an_outage_drops_lines_and_blocks_nothing(
    one_broker: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only lines beyond the buffer are dropped, and counted when the cluster is back."""
    monkeypatch.setattr(events_topic, "BUFFER_LINES_MAX", 10)
    (broker,) = one_broker.brokers.values()
    with trio.fail_after(LIMIT_S):
        with capture_logs() as log:
            async with open_events_topic(one_broker.addresses, "events") as topic:
                topic.write(["before"], "orders")
                await until(lambda: not len(topic._producer))
                await broker.kill()
                for number in range(25):
                    topic.write([f"{number}"], "orders")
                await one_broker.start()
                await until(lambda: not topic.lost)
                topic.write(["after"], "orders")
        assert [(line["event"], line.get("lost")) for line in log] == [
            ("events_topic_lost", None),
            ("events_topic_back", 15),
        ]
        messages = await trio.to_thread.run_sync(read_all, one_broker, "events", PARTITIONS, 12)
    values = [(message.value() or b"").decode() for message in messages]
    assert values == ["before", *map(str, range(10)), "after"]
