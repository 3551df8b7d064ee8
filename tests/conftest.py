"""What tests of more than one folder share."""

from collections.abc import Iterator

import pytest

from tests.support.kafka_broker import KafkaCluster, running_kafka


@pytest.fixture(scope="session", params=["3.9", "4.3"])
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Apache Kafka: the last release without the new protocol, and a late one that has it."""
    with running_kafka(request.param) as cluster:
        yield cluster
