"""Offsets that a real producer commits in transactions for consumers of a hosted group, on real
Apache Kafka."""

import time
from collections.abc import Callable

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
)
from tests.support.direct_clients import remove_anchor
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import in_turn
from tests.support.until import until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LIMIT_S = 30
RECORDS = 30


def consume_and_commit_in_a_transaction(
    servers: str, topic: str, group: str, protocol: str, before_commit: Callable[[], object]
) -> None:
    """Write to partition 0, read it, and commit the end offset, both in transactions."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": group, "log_level": 0})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.commit_transaction(LIMIT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + LIMIT_S
    consumed = 0
    while consumed < RECORDS:
        assert time.monotonic() < deadline, f"{consumed} records in {LIMIT_S} s"
        message = consumer.poll(1)
        consumed += message is not None and message.error() is None
    producer.begin_transaction()
    before_commit()
    reached = [TopicPartition(topic, 0, consumed)]
    producer.send_offsets_to_transaction(reached, consumer.consumer_group_metadata(), LIMIT_S)
    producer.commit_transaction(LIMIT_S)
    consumer.close()


async def stable_offset(coordinator: BrokerConnection, group: str, topic: str) -> int:
    """The committed offset of partition 0. Kafka answers the end of a transaction before its
    offsets are visible, so use RequireStable (KIP-447)."""
    asked = OffsetFetchRequestTopic(name=topic, partition_indexes=(0,))
    request = OffsetFetchRequest(group_id=group, topics=(asked,), require_stable=True)

    async def fetch_partition() -> OffsetFetchResponsePartition:
        answer: OffsetFetchResponse = await coordinator.ask(request, 7)
        (partition,) = answer.topics[0].partitions
        return partition

    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    stable = await until_answered(
        fetch_partition, lambda partition: partition.error_code != unstable
    )
    return stable.committed_offset


@in_turn("protocol", ["classic"], ["consumer"])
async def test_a_transaction_commits_for_members_of_both_protocols(
    kafka: KafkaCluster, protocol: str
) -> None:
    """The gateway checks the member, and the cluster stores the offsets with the transaction, as
    the anchor's. An admin removed the anchor just before, which no client notices."""
    topic, group = fresh_group("written"), fresh_group("transactional")
    await kafka.make_topic(topic)
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
    ):
        await trio.to_thread.run_sync(
            consume_and_commit_in_a_transaction,
            gateway.bootstrap_servers,
            topic,
            group,
            protocol,
            lambda: trio.from_thread.run(remove_anchor, direct),
        )
        assert await stable_offset(direct.connection, group, topic) == RECORDS
