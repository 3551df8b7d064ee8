"""Metadata answers while no broker answers."""

from uuid import UUID

from gateway.cluster.metadata_memory import without_leaders
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ORDERS = UUID(int=7)
LATEST = MetadataResponse(
    brokers=(MetadataResponseBroker(node_id=1, host="h", port=1),),
    cluster_id="c",
    topics=(
        MetadataResponseTopic(
            name="orders",
            topic_id=ORDERS,
            partitions=tuple(
                MetadataResponsePartition(
                    partition_index=index, leader_id=1, replica_nodes=(1, 2), isr_nodes=(1,)
                )
                for index in range(2)
            ),
        ),
        MetadataResponseTopic(name="other", topic_id=UUID(int=8)),
    ),
)


def answer_about(*topics: MetadataRequestTopic) -> MetadataResponse | None:
    """The answer to a request for these topics."""
    return without_leaders(LATEST, MetadataRequest(topics=topics), 12)


def test_a_topic_keeps_its_partitions_without_leaders() -> None:
    """The topic is found by name and by id. A client that misses a partition would rebalance."""
    by_name = answer_about(MetadataRequestTopic(name="orders"))
    for name in (None, "", "other"):
        assert answer_about(MetadataRequestTopic(name=name, topic_id=ORDERS)) == by_name
    assert by_name is not None
    assert by_name.brokers == LATEST.brokers
    (topic,) = by_name.topics
    assert (topic.name, topic.error_code) == ("orders", 0)
    for index, partition in enumerate(topic.partitions):
        assert partition.partition_index == index
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert partition.replica_nodes == (1, 2)


def test_a_request_beyond_the_memory_gets_no_answer() -> None:
    """A partial answer would remove topics."""
    assert (
        answer_about(MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="new")) is None
    )
    assert without_leaders(LATEST, MetadataRequest(topics=None), 12) is None
    assert without_leaders(LATEST, MetadataRequest(topics=()), 0) is None


def test_a_request_for_no_topics_gets_the_brokers() -> None:
    """From v1 on that is an empty list."""
    answer = without_leaders(LATEST, MetadataRequest(topics=()), 1)
    assert answer is not None
    assert (answer.brokers, answer.topics) == (LATEST.brokers, ())


def test_brokers_alone_are_remembered() -> None:
    """A request without topics only needs the brokers."""
    request = answer_about()
    assert request is not None
    assert (request.brokers, request.topics) == (LATEST.brokers, ())
