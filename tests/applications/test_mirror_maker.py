"""MirrorMaker 2 does behind the gateway what it does at the broker.

It mirrors one topic within a cluster, which it takes for two: with transactions, and with the
offsets of a group.
"""

import contextlib
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import trio
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_codecs.apis import ApiKey
from tests.support.applications import (
    LIMIT_S,
    MARKS,
    apis_in,
    check_alike,
    connect_class_path,
    filled_topic,
)
from tests.support.connect_worker import QUICK_START
from tests.support.kafka_broker import PARTITIONS, KafkaCluster
from tests.support.ports import HOST, free_port
from tests.support.until import until_answered

pytestmark = MARKS

RECORDS = 300
READING_S_MAX = 90.0
COMMITTED = RECORDS // PARTITIONS
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"


def write_settings(servers: str, name: str, topic: str, folder: Path) -> Path:
    """The settings of a MirrorMaker with two names for the cluster."""
    source, target = f"{name}-from", f"{name}-to"
    settings: dict[str, object] = {
        "clusters": f"{source},{target}",
        f"{source}.bootstrap.servers": servers,
        f"{target}.bootstrap.servers": servers,
        f"{source}->{target}.enabled": "true",
        f"{target}->{source}.enabled": "false",
        f"{source}->{target}.topics": topic,
        f"{source}->{target}.groups": f"{name}-group",
        f"{target}.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://{HOST}:{free_port()}",
        "replication.factor": 1,
        "sync.group.offsets.enabled": "true",
        # Otherwise heartbeats are mirrored whatever the topics: within one cluster, without end.
        "heartbeats.replication.enabled": "false",
        "offset.lag.max": 0,
    }
    for topics in ("checkpoints", "heartbeats", "offset-syncs"):
        settings[f"{topics}.topic.replication.factor"] = 1
    for topics in ("config", "offset", "status"):
        settings[f"{topics}.storage.replication.factor"] = 1
    for task in ("emit.checkpoints", "sync.group.offsets", "refresh.groups", "refresh.topics"):
        settings[f"{task}.interval.seconds"] = 1
    file = folder / f"{name}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


def read_all(servers: str, topic: str, group: str) -> list[int]:
    """Read a topic that appears meanwhile, as far as it comes in time. Returns the values."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "allow.auto.create.topics": False,
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []
    ends_at_s = time.monotonic() + READING_S_MAX
    while len(values) < RECORDS and time.monotonic() < ends_at_s:
        record = consumer.poll(1.0)
        if record is not None and record.error() is None:
            values.append(int(record.value() or b"-1"))
    consumer.close()
    return values


def offsets_of(admin: AdminClient, group: str, topic: str) -> list[int]:
    """The committed offsets of a group in a topic; none that it lacks."""
    asked = ConsumerGroupTopicPartitions(group)
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    committed = answer.result().topic_partitions or []
    return sorted(one.offset for one in committed if one.topic == topic and one.error is None)


async def until_synced(admin: AdminClient, group: str, topic: str) -> list[int]:
    """Wait until a group has offsets in the mirrored topic."""

    async def fetch_offsets() -> list[int]:
        with contextlib.suppress(KafkaException):
            return await trio.to_thread.run_sync(offsets_of, admin, group, topic)
        return []

    return await until_answered(fetch_offsets, lambda offsets: offsets == [COMMITTED] * PARTITIONS)


async def test_mirror_maker_mirrors_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """MirrorMaker copies every record once, and the offsets of a group."""
    topic, class_path = await filled_topic(kafka, RECORDS), connect_class_path()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    async def run(servers: str, name: str) -> Sequence[str]:
        group, mirrored = f"{name}-group", f"{name}-from.{topic}"
        read = [TopicPartition(topic, number, COMMITTED) for number in range(PARTITIONS)]
        (written,) = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, read)]
        ).values()
        await trio.to_thread.run_sync(written.result)
        settings = write_settings(servers, name, topic, tmp_path)
        command = ["java", *QUICK_START, "-cp", class_path, MIRROR_MAKER, f"{settings}"]
        with (tmp_path / f"{name}.log").open("wb") as output, trio.fail_after(LIMIT_S):
            process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: ASYNC220
            try:
                values = await trio.to_thread.run_sync(
                    read_all, servers, mirrored, f"{name}-reader"
                )
                offsets = await until_synced(admin, group, mirrored)
            finally:
                process.terminate()
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(process.wait)
        return [f"{len(values)} records, {len(set(values))} values", f"offsets {offsets}"]

    lines, recorder = await check_alike(kafka, run)
    assert lines[0] == f"{RECORDS} records, {RECORDS} values"
    assert apis_in(recorder) >= {ApiKey.END_TXN, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT}
