"""The port of a coordinator's reading. test_anchor_in_cluster_with_kafka.py tries it on brokers."""

import pytest

from kafka_codecs.consumer_protocol import Subscription, TopicPartition, encode_subscription
from tests.simulation.subscription_reading import Reading, read

OWNED = (TopicPartition(topic="a", partitions=(0, 1)),)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("topics", [(), ("orders",), ("orders", "payments")])
def test_subscriptions_of_clients_are_read(version: int, topics: tuple[str, ...]) -> None:
    """Each version begins with version 0. Brokers do not look at the number."""
    value = Subscription(topics=topics, user_data=b"x", owned_partitions=OWNED)
    data = encode_subscription(value, version)
    assert read(data) is read(b"\xff\xff" + data[2:]) is Reading.SUBSCRIPTION


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0\0\0",
        b"\0\0\0\0\0\1\0\1x",
        b"\0\0\0\0\0\1\0\1x\0\0",
    ],
)
def test_bytes_that_end_inside_a_number_are_unreadable(data: bytes) -> None:
    """Brokers log a warning, and continue."""
    assert read(data) is Reading.UNREADABLE


@pytest.mark.parametrize(
    "data",
    [
        b"0af7651916cd43dd8448eb211c80319c",
        b"run 1234",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\0\5x",
        b"\0\0\0\0\0\1\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\0\0\0\0\7x",
    ],
)
def test_impossible_lengths_crash_the_coordinator(data: bytes) -> None:
    """The first are the id of a state log and the metadata of older anchors."""
    assert read(data) is Reading.CRASH
