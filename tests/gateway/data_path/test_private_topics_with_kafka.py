"""The gateway's own topics and its writer, attacked in encodings that a real broker accepts."""

import itertools
from collections.abc import Collection
from uuid import UUID, uuid4

import pytest
import trio
from confluent_kafka import Producer

from gateway.cluster.broker_connection import BrokerConnection
from gateway.data_path.private_names import PrivateNames
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_codecs.describe_log_dirs import DescribeLogDirsRequest
from kafka_codecs.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka_codecs.elect_leaders import ElectLeadersRequest
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_codecs.header import decode_response_header
from kafka_codecs.init_producer_id import InitProducerIdRequest
from kafka_codecs.list_transactions import ListTransactionsRequest
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.codecs import overlong_encoding
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.wire import Wire, open_wire, request_frame

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

SECRET = b"the state of a group"
PADDINGS = (0, 1, 4)


async def test_no_encoding_opens_the_state_to_a_client(kafka: KafkaCluster) -> None:
    """Nothing is read, fenced, deleted or listed, and the writer continues."""
    state, writer = f"state-{uuid4()}", f"writer-{uuid4()}"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": writer})
    await kafka.make_topic(state)
    await trio.to_thread.run_sync(_write, producer, state, True)
    topic_id = await _topic_id(kafka, state)
    private = PrivateNames((state,), (writer,), topic_ids=lambda: (topic_id,))
    async with (
        running_gateway(kafka.addresses, private_names=private) as gateway,
        open_wire(gateway.address) as client,
    ):
        for request, versions in (*_attacks(state, topic_id, writer), *_lists()):
            for version in versions:
                for padding in PADDINGS:
                    answer = await _answer(client, request, version, padding)
                    assert SECRET not in answer, (request, version)
                    if request.SCHEMA.api_key not in _NAMED_IN_THE_ANSWER:
                        assert state.encode() not in answer, (request, version)
                        assert writer.encode() not in answer, (request, version)
    assert await _topic_id(kafka, state) == topic_id
    await trio.to_thread.run_sync(_write, producer, state, False)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 100])
async def test_pages_of_topics_are_those_of_a_client_that_may_not_describe_the_state(
    kafka: KafkaCluster, limit: int
) -> None:
    """No page is empty, no cursor names the state, and every other partition is on a page."""
    prefix = f"pages-{uuid4()}"
    names = [f"{prefix}-{letter}" for letter in "abcdef"]
    for name in names:
        await kafka.make_topic(name)
    state = (names[0], names[2], names[3], names[5])
    async with (
        running_gateway(kafka.addresses, private_names=PrivateNames(state)) as gateway,
        open_wire(gateway.address) as client,
        open_wire(kafka.addresses[0]) as direct,
    ):
        (expected,) = await _pages(direct, 1000, prefix)
        pages = await _pages(client, limit, prefix, state)
    public = [partition for partition in expected if partition[0] not in state]
    assert list(itertools.chain.from_iterable(pages)) == public
    assert all(0 < len(page) <= limit for page in pages)


async def _pages(
    client: Wire, limit: int, first: str, hidden: Collection[str] = ()
) -> list[list[tuple[str, int]]]:
    """The partitions on all pages, from a position in the alphabet on."""
    pages = []
    cursor: Cursor | None = Cursor(topic_name=first, partition_index=0)
    while cursor is not None:
        request = DescribeTopicPartitionsRequest(
            topics=(), response_partition_limit=limit, cursor=cursor
        )
        frame = await _answer(client, request, 0, 0)
        key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
        _, body_at = decode_response_header(key, 0, frame)
        page = decode(DescribeTopicPartitionsResponse, frame[body_at:], 0)
        pages.append(
            [
                (topic.name or "", partition.partition_index)
                for topic in page.topics
                for partition in topic.partitions
            ]
        )
        cursor = page.next_cursor
        assert cursor is None or cursor.topic_name not in hidden
    return pages


def _write(producer: Producer, topic: str, is_first: bool) -> None:
    if is_first:
        producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, SECRET, partition=0)
    producer.commit_transaction()


Attack = tuple[Struct, tuple[int, ...]]
"""A request, and the versions that are tried."""
_NAMED_IN_THE_ANSWER = {ApiKey.FETCH, ApiKey.DELETE_TOPICS}
"""The refusals repeat the name."""


def _attacks(state: str, topic_id: UUID, writer: str) -> list[Attack]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    by_name = FetchTopic(topic=state, partitions=(partition,))
    by_id = FetchTopic(topic_id=topic_id, partitions=(partition,))
    return [
        (FetchRequest(max_wait_ms=100, min_bytes=1, topics=(by_name,)), (4, 11, 12)),
        (FetchRequest(max_wait_ms=100, min_bytes=1, topics=(by_id,)), (13, 15)),
        (InitProducerIdRequest(transactional_id=writer, transaction_timeout_ms=1_000), (1, 4)),
        (DeleteTopicsRequest(topic_names=(state,), timeout_ms=1_000), (3, 5)),
        (DeleteTopicsRequest(topics=(DeleteTopicState(name=state),), timeout_ms=1_000), (6,)),
        (DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic_id),), timeout_ms=1), (6,)),
    ]


def _lists() -> list[Attack]:
    return [
        (MetadataRequest(topics=None), (1, 12)),
        (DescribeLogDirsRequest(topics=None), (1, 4)),
        (DescribeTopicPartitionsRequest(topics=()), (0,)),
        (ElectLeadersRequest(topic_partitions=None, timeout_ms=1_000), (1, 2)),
        (ListTransactionsRequest(state_filters=(), producer_id_filters=()), (0, 1)),
    ]


async def _answer(client: Wire, request: Struct, version: int, padding: int) -> bytes:
    key = request.SCHEMA.api_key
    assert key is not None
    body = overlong_encoding(request, version, padding)
    await client.send(request_frame(key, version, 7, body))
    return await client.frame()


async def _topic_id(kafka: KafkaCluster, topic: str) -> UUID:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    async with await BrokerConnection.open(*kafka.addresses[0]) as connection:
        answer: MetadataResponse = await connection.ask(request, 12)
    (described,) = answer.topics
    assert described.error_code == 0
    return described.topic_id
