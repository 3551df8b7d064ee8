"""Topics of our own, made or found in a real cluster."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient

from gateway.cluster.own_topics import is_there, made_or_found
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


def test_a_topic_is_made_with_its_settings_and_partitions(kafka: KafkaCluster) -> None:
    """On both brokers; it can be written while one of them is down."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    assert not is_there(config, "own-made")
    found = made_or_found(config, "own-made", partitions=4, settings={"segment.ms": "60000"})
    assert (found["segment.ms"], found["min.insync.replicas"]) == ("60000", "1")
    assert is_there(config, "own-made")
    topic = AdminClient({**config}).list_topics("own-made", timeout=10).topics["own-made"]
    assert len(topic.partitions) == 4
    assert {len(partition.replicas) for partition in topic.partitions.values()} == {2}


def test_a_topic_that_is_there_keeps_its_settings(kafka: KafkaCluster) -> None:
    """An operator may have changed them."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    made_or_found(config, "own-found", partitions=1, settings={"segment.ms": "60000"})
    found = made_or_found(config, "own-found", partitions=1, settings={"segment.ms": "70000"})
    assert found["segment.ms"] == "60000"


def test_of_many_who_make_a_topic_each_finds_it(kafka: KafkaCluster) -> None:
    """Gateways that start together; only one of them makes it."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}

    def make(_number: int) -> str:
        found = made_or_found(config, "own-raced", partitions=1, settings={"segment.ms": "60000"})
        return found["segment.ms"]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(make, range(4))) == ["60000"] * 4
