"""Real clients through a real gateway in front of librdkafka's mock cluster."""

import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.data_path import running_gateway
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
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None, message.error()
        found.append(int(message.value() or b""))
    consumer.close()
    return sorted(found)


async def test_a_producer_and_a_simple_consumer_see_every_record() -> None:
    """What goes in through the gateway comes out through it."""
    async with running_mock_cluster() as upstream:
        await upstream.create_topic("numbers", 4)
        async with running_gateway(upstream.bootstrap) as gateway:
            servers = gateway.bootstrap_servers
            sent = await trio.to_thread.run_sync(_produce, servers, "numbers", 1000)
            found = await trio.to_thread.run_sync(_consume, servers, "numbers", 1000)
            assert found == sent
