"""Real clients through a real gateway in front of librdkafka's mock cluster."""

import random
from functools import partial

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.mock_cluster import running_mock_cluster


def _produce(bootstrap_servers: str, topic: str, count: int, **config: object) -> list[int]:
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, **config})
    for number in range(count):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % 4,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    left = producer.flush(20)
    assert not errors, errors[0]
    assert left == 0
    return list(range(count))


def _consume(bootstrap_servers: str, topic: str, count: int, **config: object) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", **config})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    values: list[int] = []
    while len(values) < count:
        message = consumer.poll(20)
        assert message is not None, f"{len(values)} of {count}"
        assert message.error() is None, message.error()
        values.append(int(message.value() or b""))
    consumer.close()
    return sorted(values)


PRODUCERS: dict[str, dict[str, object]] = {
    "default": {},
    "unanswered": {"acks": 0},
    "one record a request": {"linger.ms": 0, "batch.num.messages": 1, "acks": 1},
    "compressed": {"compression.type": "lz4"},
    "idempotent": {"enable.idempotence": True},
}


@pytest.mark.parametrize("name", PRODUCERS)
async def test_every_kind_of_producer_delivers_its_records(name: str) -> None:
    """This includes producers without acknowledgements."""
    async with running_mock_cluster() as upstream:
        await upstream.create_topic("numbers", 4)
        async with running_gateway(upstream.bootstrap) as gateway:
            servers = gateway.bootstrap_servers
            produce = partial(_produce, servers, "numbers", 1000, **PRODUCERS[name])
            sent = await trio.to_thread.run_sync(produce)
            values = await trio.to_thread.run_sync(_consume, servers, "numbers", 1000)
            assert values == sent


async def test_a_transaction_completes() -> None:
    """The coordinator's address is rewritten."""
    async with running_mock_cluster() as upstream:
        await upstream.create_topic("numbers", 4)
        async with running_gateway(upstream.bootstrap) as gateway:
            servers = gateway.bootstrap_servers

            def transact() -> None:
                producer = Producer({"bootstrap.servers": servers, "transactional.id": "t"})
                producer.init_transactions(10)
                producer.begin_transaction()
                for number in range(4):
                    producer.produce("numbers", b"%d" % number, partition=number)
                producer.commit_transaction(10)

            await trio.to_thread.run_sync(transact)
            values = await trio.to_thread.run_sync(_consume, servers, "numbers", 4)
            assert values == [0, 1, 2, 3]


async def test_long_records_pass_unchanged() -> None:
    """The records are long enough for splice."""
    record = random.Random(1).randbytes(900_000)
    async with running_mock_cluster() as upstream:
        await upstream.create_topic("long", 4)
        async with running_gateway(upstream.bootstrap) as gateway:

            def run() -> None:
                servers = gateway.bootstrap_servers
                producer = Producer({"bootstrap.servers": servers})
                for _ in range(5):
                    producer.produce("long", record, partition=1)
                assert producer.flush(20) == 0
                consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
                consumer.assign([TopicPartition("long", 1, 0)])
                for _ in range(5):
                    message = consumer.poll(20)
                    assert message is not None
                    assert message.value() == record
                consumer.close()

            await trio.to_thread.run_sync(run)
