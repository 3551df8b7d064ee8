"""Topics of a Metadata answer."""

from uuid import UUID

import pytest

from gateway.cluster.topics import (
    ClusterTopic,
    derived_topic_id,
    names_in,
    request_operations,
    topics_in,
)
from kafka_codecs import decode, encode
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = UUID("12345678-1234-4234-8234-123456789abc")


def _partition(index: int, *replicas: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=index, leader_id=1, replica_nodes=replicas, isr_nodes=replicas
    )


def _broker(node_id: int, rack: str | None) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node_id, host="h", port=1, rack=rack)


def test_a_topic_has_sorted_partitions_and_their_racks() -> None:
    """Brokers without a rack add none."""
    answer = MetadataResponse(
        brokers=(_broker(1, "a"), _broker(2, "b"), _broker(3, None)),
        topics=(
            MetadataResponseTopic(
                name="t", topic_id=ID, partitions=(_partition(1, 2, 3), _partition(0, 1, 2))
            ),
        ),
    )
    racks = (frozenset({"a", "b"}), frozenset({"b"}))
    assert topics_in(answer) == {"t": ClusterTopic(topic_id=ID, partition_count=2, racks=racks)}


def test_topics_with_an_error_are_missing() -> None:
    """Topics that are looked up by an unknown id are missing, too."""
    answer = MetadataResponse(
        topics=(
            MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="t"),
            MetadataResponseTopic(error_code=100, name=None),
        )
    )
    assert topics_in(answer) == {}


def test_a_topic_without_an_id_gets_a_stable_one() -> None:
    """Cluster and name determine it in every run, and it is a valid uuid."""
    answer = MetadataResponse(cluster_id="c", topics=(MetadataResponseTopic(name="t"),))
    assert topics_in(answer)["t"].topic_id == derived_topic_id("c", "t")
    assert derived_topic_id("c", "t") == UUID("232a5395-d6df-5b00-8bd2-0b42306379b2")
    assert derived_topic_id("c", "u") != derived_topic_id("d", "u")
    assert derived_topic_id("ab", "c") != derived_topic_id("a", "bc")
    assert derived_topic_id(None, "t").version == 5


def test_names_by_id() -> None:
    """A topic with an error is missing. In a cluster without ids it has the derived one."""
    answer = MetadataResponse(
        cluster_id="c",
        topics=(
            MetadataResponseTopic(name="with", topic_id=ID),
            MetadataResponseTopic(name="without"),
            MetadataResponseTopic(name="broken", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ),
    )
    assert names_in(answer) == {ID: "with", derived_topic_id("c", "without"): "without"}


@pytest.mark.parametrize(("highest", "version"), [(0, 0), (7, 7), (8, 8), (13, 8)])
def test_every_broker_can_be_asked_about_permissions(highest: int, version: int) -> None:
    """Brokers tell operations since v8, which is Kafka 2.3. Older ones hide topics alone."""
    request, chosen = request_operations(["t"], highest)
    assert chosen == version
    assert decode(MetadataRequest, encode(request, version), version).topics == request.topics
    assert request.include_topic_authorized_operations is (version == 8)
