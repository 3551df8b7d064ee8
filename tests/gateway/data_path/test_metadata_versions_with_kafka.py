"""Topics asked for by id get the brokers' answers, in every spelling."""

from uuid import UUID

import pytest
import trio
from confluent_kafka import Producer

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import (
    NO_TOPIC_ID,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.support.client_programs import program
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group
from tests.support.java_programs import java_program
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.releases import with_anchors

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

BY_ID_SINCE, LAST_VERSION = 12, 13
UNKNOWN = UUID(int=5)
INVALID_TOPIC_EXCEPTION = 17

Answered = list[tuple[int, str | None, UUID]]


async def answer_about(
    connection: BrokerConnection, topics: tuple[MetadataRequestTopic, ...], version: int
) -> Answered:
    """What is answered for these topics."""
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer: MetadataResponse = await connection.ask(request, version)
    return [(topic.error_code, topic.name, topic.topic_id) for topic in answer.topics]


@with_anchors()
async def test_a_topic_is_known_by_its_id_whatever_its_name(
    kafka: KafkaCluster,
) -> None:
    """Java names an id's topic with an empty string, others with null."""
    async with (
        whole_gateway(kafka.addresses) as gateway,
        await BrokerConnection.open(*kafka.addresses[0]) as direct,
        await BrokerConnection.open(*gateway.address) as behind,
    ):
        (existing,) = await answer_about(direct, (MetadataRequestTopic(name=TOPIC),), 10)
        topic_id = existing[2]
        unknown = (int(ErrorCode.UNKNOWN_TOPIC_ID), None, UNKNOWN)
        absent = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "absent", NO_TOPIC_ID)
        invalid = (INVALID_TOPIC_EXCEPTION, "", NO_TOPIC_ID)
        cases: list[tuple[list[tuple[UUID, str | None]], Answered]] = [
            ([(topic_id, None)], [existing]),
            ([(topic_id, "")], [existing]),
            ([(topic_id, "absent")], [existing]),
            ([(topic_id, ""), (NO_TOPIC_ID, "absent")], [existing]),
            ([(topic_id, ""), (UNKNOWN, "")], [existing, unknown]),
            ([(UNKNOWN, None)], [unknown]),
            ([(NO_TOPIC_ID, TOPIC), (NO_TOPIC_ID, "absent")], [existing, absent]),
            ([(NO_TOPIC_ID, "")], [invalid]),
            ([], []),
        ]
        brokers_highest = direct.highest_version(ApiKey.METADATA)
        for topics, expected in cases:
            asked = tuple(MetadataRequestTopic(topic_id=known, name=name) for known, name in topics)
            expected.sort(key=str)
            for version in (BY_ID_SINCE, LAST_VERSION):
                assert sorted(await answer_about(behind, asked, version), key=str) == expected, (
                    topics
                )
                if version <= brokers_highest:
                    assert sorted(await answer_about(direct, asked, version), key=str) == expected
        gateway.stop.set()
        await gateway.ended.wait()


async def test_java_reads_a_topic_that_it_knows_by_its_id(kafka: KafkaCluster) -> None:
    """A consumer with a SubscriptionPattern learns from its assignment only the ids."""
    topic = fresh_group("by-id")
    await kafka.make_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"read")
    assert await trio.to_thread.run_sync(producer.flush, 30) == 0
    async with whole_gateway(kafka.addresses) as gateway:
        *_java, class_path, _consumer = program("java").command
        command = await trio.to_thread.run_sync(java_program, "TopicsById", class_path)
        done = await trio.run_process(
            [*command, gateway.bootstrap_servers, topic, topic],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert done.stdout.decode().split() == [topic, "read"], done.stderr.decode()
        gateway.stop.set()
        await gateway.ended.wait()
