"""The gateway's own librdkafka clients."""

import logging
from logging.handlers import MemoryHandler

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway.cluster.librdkafka import client_config
from tests.support.ports import HOST, free_port

LIMIT_S = 0.5


def test_a_client_needs_one_reachable_address() -> None:
    """The cluster sees its client id."""
    config = client_config([("kafka-1", 9092), ("kafka-2", 9093)], "groupferry-state")
    assert config["bootstrap.servers"] == "kafka-1:9092,kafka-2:9093"
    assert config["client.id"] == "groupferry-state"


def test_a_look_up_creates_no_topic() -> None:
    """Otherwise a deleted topic would return with the broker's default settings."""
    assert client_config([("kafka", 9092)], "c")["allow.auto.create.topics"] is False


def test_an_unreachable_cluster_raises_without_console_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """librdkafka would print a line of its own per attempt."""
    of_everybody = MemoryHandler(capacity=1_000, flushLevel=logging.CRITICAL + 1)
    logging.getLogger().addHandler(of_everybody)
    try:
        admin = AdminClient(dict(client_config([(HOST, free_port())], "c")))
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=LIMIT_S)
        admin.poll(0)
    finally:
        logging.getLogger().removeHandler(of_everybody)
    assert of_everybody.buffer == []
    assert capfd.readouterr() == ("", "")
