"""The gateway's own topics, created or found in a real cluster."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient

from gateway.cluster.own_topics import list_topics, made_or_found
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


def test_a_topic_is_created_with_its_settings_and_partitions(kafka: KafkaCluster) -> None:
    """The topic has replicas on both brokers, and stays writable while one is down."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    assert "own-made" not in list_topics(config).topics
    settings = made_or_found(config, "own-made", partitions=4, settings={"segment.ms": "60000"})
    assert (settings["segment.ms"], settings["min.insync.replicas"]) == ("60000", "1")
    assert "own-made" in list_topics(config).topics
    topic = AdminClient({**config}).list_topics("own-made", timeout=10).topics["own-made"]
    assert len(topic.partitions) == 4
    assert {len(partition.replicas) for partition in topic.partitions.values()} == {2}


def test_an_existing_topic_keeps_its_settings(kafka: KafkaCluster) -> None:
    """An operator may have changed them."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    made_or_found(config, "own-found", partitions=1, settings={"segment.ms": "60000"})
    settings = made_or_found(config, "own-found", partitions=1, settings={"segment.ms": "70000"})
    assert settings["segment.ms"] == "60000"


def test_simultaneous_creators_all_find_the_topic(kafka: KafkaCluster) -> None:
    """Only one of the starting gateways creates it."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}

    def make(_number: int) -> str:
        settings = made_or_found(
            config, "own-raced", partitions=1, settings={"segment.ms": "60000"}
        )
        return settings["segment.ms"]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(make, range(4))) == ["60000"] * 4
