"""Offsets that a real producer commits in a transaction, for real consumers of a hosted group, on
real Apache Kafka."""

import time

import pytest
import trio
from confluent_kafka import Consumer, Producer

from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LIMIT_S = 30
RECORDS = 30


def consume_and_commit_in_a_transaction(servers: str, group: str, protocol: str) -> int:
    """The position that was committed in partition 0 of a topic that is named like the group."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": group, "log_level": 0})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(group, b"%d" % number, partition=0)
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
    consumer.subscribe([group])
    deadline = time.monotonic() + LIMIT_S
    consumed = 0
    while consumed < RECORDS and time.monotonic() < deadline:
        message = consumer.poll(1)
        consumed += message is not None and message.error() is None
    positions = consumer.position(consumer.assignment())
    producer.begin_transaction()
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction(positions, metadata, LIMIT_S)
    producer.commit_transaction(LIMIT_S)
    consumer.close()
    (position,) = [each.offset for each in positions if each.partition == 0]
    assert position is not None
    return position


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_transaction_commits_for_members_of_both_protocols(
    kafka: KafkaCluster, protocol: str
) -> None:
    """The member is checked here, the cluster stores the offsets with the transaction."""
    group = fresh_group("transactional")
    async with whole_gateway(kafka.addresses) as gateway:
        position = await trio.to_thread.run_sync(
            consume_and_commit_in_a_transaction, gateway.bootstrap_servers, group, protocol
        )
        assert position >= RECORDS
        async with group_client(kafka.addresses[0], group) as direct:
            assert await direct.committed(topic=group, partitions=1) == {0: position}
