"""The topic of the log, created or found in a real cluster."""

import pytest
import trio

from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_topics import made_or_found
from gateway.state_log.kafka.topic import BATCH_OVERHEAD, has_partition, make_or_check
from gateway.state_log.kafka.transactions import RECORD_BYTES_MAX
from gateway.state_log.log import StateLogError, StateLogUnusable
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.secure_kafka import SecureKafka
from tests.support.secure_users import access_of, new_user

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


def test_a_new_topic_is_compacted_within_minutes(kafka: KafkaCluster) -> None:
    """By default, the ends of transactions, two per second, would stay for a day."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    assert make_or_check(config, "state-made") == RECORD_BYTES_MAX - BATCH_OVERHEAD
    settings = made_or_found(config, "state-made", partitions=1, settings={})
    assert settings["cleanup.policy"] == "compact"
    assert settings["unclean.leader.election.enable"] == "false"
    assert {name: int(settings[name]) for name in ("segment.ms", "delete.retention.ms")} == {
        "segment.ms": 600_000,
        "delete.retention.ms": 600_000,
    }


def test_a_topic_that_loses_records_is_refused(kafka: KafkaCluster) -> None:
    """Deletion by age would lose quiet groups."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    settings = {"cleanup.policy": "delete"}
    made_or_found(config, "state-forgets-by-age", partitions=1, settings=settings)
    with pytest.raises(StateLogUnusable, match=r"cleanup\.policy=delete"):
        make_or_check(config, "state-forgets-by-age")


def test_the_topics_limit_applies_to_records(kafka: KafkaCluster) -> None:
    """The creator of the topic chose it."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    settings = {"cleanup.policy": "compact", "max.message.bytes": "2000"}
    made_or_found(config, "state-of-small-records", partitions=1, settings=settings)
    assert make_or_check(config, "state-of-small-records") == 2_000 - BATCH_OVERHEAD


def test_a_topic_that_cannot_be_created_is_reported_by_name(
    kafka: KafkaCluster,
) -> None:
    """The error has the cluster's reason."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    with pytest.raises(StateLogError, match="topic not a name: "):
        make_or_check(config, "not a name")


def test_a_topic_is_missed_only_if_the_cluster_denies_it(kafka: KafkaCluster) -> None:
    """A request for it does not create it."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    make_or_check(config, "state-there")
    assert has_partition(config, "state-there", 0)
    assert not has_partition(config, "state-there", 1)
    for _ in range(2):
        assert not has_partition(config, "state-not-there", 0)


async def test_a_topic_that_may_not_be_seen_is_not_missed(secure_kafka: SecureKafka) -> None:
    """An ACL was changed, and no state is lost."""
    access = access_of(secure_kafka, await new_user(secure_kafka))
    config = client_config([secure_kafka.sasl_ssl], "groupferry-test", access)
    assert await trio.to_thread.run_sync(has_partition, config, TOPIC, 0)
