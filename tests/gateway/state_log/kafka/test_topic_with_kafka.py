"""The topic of the log, made or found in a real cluster."""

import pytest

from gateway.cluster.own_topics import made_or_found
from gateway.state_log.kafka.topic import BATCH_OVERHEAD, make_or_check
from gateway.state_log.kafka.transactions import RECORD_BYTES_MAX
from gateway.state_log.log import StateLogError, StateLogUnusable
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


def test_a_new_topic_keeps_what_is_live_and_forgets_the_rest(kafka: KafkaCluster) -> None:
    """Within minutes; by default the ends of transactions, two a second, are kept for a day."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    assert make_or_check(config, "state-made") == RECORD_BYTES_MAX - BATCH_OVERHEAD
    found = made_or_found(config, "state-made", partitions=1, settings={})
    assert found["cleanup.policy"] == "compact"
    assert found["unclean.leader.election.enable"] == "false"
    assert {name: int(found[name]) for name in ("segment.ms", "delete.retention.ms")} == {
        "segment.ms": 600_000,
        "delete.retention.ms": 600_000,
    }


def test_a_topic_that_loses_records_is_refused(kafka: KafkaCluster) -> None:
    """One that forgets by age would forget groups that are quiet."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    settings = {"cleanup.policy": "delete"}
    made_or_found(config, "state-forgets-by-age", partitions=1, settings=settings)
    with pytest.raises(StateLogUnusable, match=r"cleanup\.policy=delete"):
        make_or_check(config, "state-forgets-by-age")


def test_a_record_is_no_longer_than_the_topic_takes(kafka: KafkaCluster) -> None:
    """Whoever made the topic has chosen that."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    settings = {"cleanup.policy": "compact", "max.message.bytes": "2000"}
    made_or_found(config, "state-of-small-records", partitions=1, settings=settings)
    assert make_or_check(config, "state-of-small-records") == 2_000 - BATCH_OVERHEAD


def test_a_topic_that_the_cluster_does_not_make_is_an_error_that_names_it(
    kafka: KafkaCluster,
) -> None:
    """And what the cluster has against it."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    with pytest.raises(StateLogError, match="topic not a name: "):
        make_or_check(config, "not a name")
