"""Each producer writes the same bytes behind the gateway as at the broker.

It writes idempotently and in a transaction, if it can, once with each of its codecs; then a second
producer with one transactional id fences the first. librdkafka before 2.11 compresses only for a
broker that states Produce v0; a client that does not compress cannot write a long record.
"""

import os
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import pytest
import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.apis import ApiKey
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.client_programs import ProducerLibrary, program
from tests.support.gateway import whole_gateway
from tests.support.installs import INSTALL_LIMIT_S
from tests.support.kafka_broker import KafkaCluster
from tests.support.until import until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(INSTALL_LIMIT_S)]

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BEFORE_ZSTD = ALL_CODECS[:-1]
CODEC_BITS, TRANSACTIONAL, CONTROL = 0b111, 1 << 4, 1 << 5
"""The attributes of a record batch."""
LAST_VERSION_BY_NAME = 12
METADATA_VERSION = 9
RECORDS_BYTES_MAX = 8_000_000
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A client library, and the codecs that it has without further packages."""

    library: ProducerLibrary
    version: str = ""
    codecs: tuple[str, ...] = ALL_CODECS
    has_transactions: bool = True
    is_in_ci: bool = True

    def __str__(self) -> str:
        return f"{self.library}-{self.version}" if self.version else self.library


PRODUCERS = (
    Producer(library="librdkafka"),
    Producer(library="librdkafka", version="2.10.1", is_in_ci=False),
    Producer(library="librdkafka", version="2.8.0"),
    Producer(library="librdkafka", version="2.0.2", is_in_ci=False),
    Producer(library="java"),
    Producer(library="java", version="3.9.2", is_in_ci=False),
    Producer(library="java", version="2.1.1", is_in_ci=False),
    Producer(library="java", version="1.1.1", codecs=BEFORE_ZSTD, is_in_ci=False),
    Producer(library="java", version="1.0.2", codecs=BEFORE_ZSTD, is_in_ci=False),
    Producer(library="kafka-python", codecs=("none", "gzip")),
    Producer(library="aiokafka", codecs=("none", "gzip")),
    Producer(library="franz-go"),
    Producer(library="sarama", is_in_ci=False),
    Producer(library="kafka-go", has_transactions=False, is_in_ci=False),
    Producer(library="kafkajs", codecs=("none", "gzip")),
    Producer(library="platformatic", is_in_ci=False),
)


class Batch(NamedTuple):
    """A stored record batch."""

    size: int
    codec: int
    is_transactional: bool
    has_producer_id: bool


def batches_in(records: bytes) -> list[Batch]:
    """The batches of data in these records, but no markers of transactions."""
    batches = []
    at = 0
    while at < len(records):
        size = 12 + int.from_bytes(records[at + 8 : at + 12], "big")
        attributes = int.from_bytes(records[at + 21 : at + 23], "big")
        producer_id = int.from_bytes(records[at + 43 : at + 51], "big", signed=True)
        if not attributes & CONTROL:
            codec, is_transactional = attributes & CODEC_BITS, bool(attributes & TRANSACTIONAL)
            batches.append(Batch(size, codec, is_transactional, producer_id >= 0))
        at += size
    return batches


async def leader_of(kafka: KafkaCluster, topic: str) -> tuple[str, int]:
    """The address of the leader of partition 0."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    async with await BrokerConnection.open(*kafka.addresses[0]) as connection:
        answer: MetadataResponse = await connection.ask(request, METADATA_VERSION)
    partitions = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}
    (leader,) = [broker for broker in answer.brokers if broker.node_id == partitions[0]]
    return leader.host, leader.port


async def stored_batches(kafka: KafkaCluster, topic: str) -> list[Batch]:
    """The batches in partition 0 of a topic, as the producer sent them."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=RECORDS_BYTES_MAX)
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        topics=(FetchTopic(topic=topic, partitions=(partition,)),),
    )
    async with await BrokerConnection.open(*await leader_of(kafka, topic)) as connection:
        version = min(connection.highest_version(ApiKey.FETCH), LAST_VERSION_BY_NAME)
        answer: FetchResponse = await until_answered(
            lambda: connection.ask(request, version),
            lambda answer: answer.responses[0].partitions[0].records,
        )
    return batches_in(answer.responses[0].partitions[0].records or b"")


async def produce_with(
    producer: Producer, kafka: KafkaCluster, bootstrap: str
) -> dict[str, list[Batch]]:
    """What a producer with this bootstrap address has stored with each codec."""
    prefix = f"{producer}-{next(_numbers)}-{os.getpid()}"
    for codec in producer.codecs:
        await kafka.make_topic(f"{prefix}-{codec}")
    client = program(producer.library, producer.version, "producer")
    done = await trio.run_process(
        [*client.command, bootstrap, prefix, *producer.codecs],
        env={**os.environ, **client.environment},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return {codec: await stored_batches(kafka, f"{prefix}-{codec}") for codec in producer.codecs}


@pytest.mark.parametrize("producer", PRODUCERS, ids=str)
async def test_a_producer_writes_the_same_bytes_as_at_the_broker(
    producer: Producer, kafka: KafkaCluster
) -> None:
    """Each batch has its codec, its producer's id and its transaction."""
    program(producer.library, producer.version, "producer")  # skips if it cannot be installed
    async with whole_gateway(kafka.addresses) as gateway:
        behind = await produce_with(producer, kafka, gateway.bootstrap_servers)
        gateway.stop.set()
        await gateway.ended.wait()
    assert behind == await produce_with(producer, kafka, kafka.bootstrap_servers)
    for number, codec in enumerate(ALL_CODECS):
        if codec in producer.codecs:
            assert {batch.codec for batch in behind[codec]} == {number}
            assert behind[codec][-1].is_transactional == producer.has_transactions
            assert len(behind[codec]) == (1 if codec == "none" else 2) + producer.has_transactions
    assert max(batch.size for batch in behind["gzip"]) < min(b.size for b in behind["none"])
