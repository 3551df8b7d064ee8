"""Our own clients of librdkafka: what they say, and what they leave alone."""

import logging
from logging.handlers import MemoryHandler

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway.cluster.librdkafka import client_config
from tests.support.ports import HOST, free_port

LIMIT_S = 0.5


def test_a_client_finds_the_cluster_by_any_of_its_addresses() -> None:
    """And is known there by the name that it was given."""
    config = client_config([("kafka-1", 9092), ("kafka-2", 9093)], "groupferry-state")
    assert config["bootstrap.servers"] == "kafka-1:9092,kafka-2:9093"
    assert config["client.id"] == "groupferry-state"


def test_a_client_makes_no_topic_by_asking_for_one() -> None:
    """A topic that was deleted would come back with the broker's settings."""
    assert client_config([("kafka", 9092)], "c")["allow.auto.create.topics"] is False


def test_a_cluster_that_is_away_is_an_exception_and_no_line_on_the_console(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """librdkafka would write one for each attempt, in a form of its own."""
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
