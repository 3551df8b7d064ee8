"""Topics as the gateway sees them, and ids for clusters without topic ids."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID, uuid5

from kafka_codecs.metadata import (
    NO_TOPIC_ID,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

METADATA_BY_TOPIC_ID_SINCE = 12
"""The first version that requests topics by id. v13 adds only an error that this upstream lacks."""
TOPIC_NAME = "[a-zA-Z0-9._-]{1,249}"
"""Kafka's rule for topic names, as a regular expression."""

_NAMESPACE = UUID(
    "1f0e0a5b-6a43-4b07-9d4b-6f6c1c0c6d5e"
)  # random; changing it would change every id

_FIRST_VERSION_WITHOUT_CREATION, _FIRST_VERSION_WITH_OPERATIONS = 4, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopic:
    """An existing topic."""

    topic_id: UUID
    partition_count: int
    racks: tuple[frozenset[str], ...]
    """Per partition, the racks that hold a replica; empty where no broker names its rack."""


def can_be_topic(name: str) -> bool:
    """Whether the name is a legal topic name."""
    return re.fullmatch(TOPIC_NAME, name) is not None


def request_operations(names: Iterable[str], highest: int) -> tuple[MetadataRequest, int]:
    """A request for topics with the operations that the user may do, and its version. A broker
    whose highest version is older tells no operations."""
    version = min(highest, _FIRST_VERSION_WITH_OPERATIONS)
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in names),
        # Before v4 a broker cannot be told not to create them.
        allow_auto_topic_creation=version < _FIRST_VERSION_WITHOUT_CREATION,
        include_topic_authorized_operations=version == _FIRST_VERSION_WITH_OPERATIONS,
    )
    return request, version


def topics_in(answer: MetadataResponse) -> dict[str, ClusterTopic]:
    """The topics of a Metadata answer that exist, by name."""
    rack_of = {broker.node_id: broker.rack for broker in answer.brokers}
    return {
        topic.name: ClusterTopic(
            topic_id=topic_id_of(topic, answer.cluster_id),
            partition_count=len(topic.partitions),
            racks=_racks(topic, rack_of),
        )
        for topic in answer.topics
        if topic.name and not topic.error_code
    }


def names_in(answer: MetadataResponse) -> dict[UUID, str]:
    """The names of the topics of a Metadata answer that exist, by id."""
    return {
        topic_id_of(topic, answer.cluster_id): topic.name
        for topic in answer.topics
        if topic.name and not topic.error_code
    }


def requested_ids(request: MetadataRequest) -> list[UUID]:
    """The ids in a request of v12 or later. If there is one, Kafka reads no names, be they null or
    empty."""
    return [topic.topic_id for topic in request.topics or () if topic.topic_id != NO_TOPIC_ID]


def derived_topic_id(cluster_id: str | None, name: str) -> UUID:
    """A stable id for a topic of a cluster without topic ids: a hash of cluster id and name.

    A recreated topic keeps this id. A cluster with topic ids would give it a new one.
    """
    return uuid5(_NAMESPACE, f"{cluster_id or ''}\0{name}")


def topic_id_of(topic: MetadataResponseTopic, cluster_id: str | None) -> UUID:
    """The cluster's topic id, or else the derived one."""
    if topic.topic_id != NO_TOPIC_ID or topic.name is None:
        return topic.topic_id
    return derived_topic_id(cluster_id, topic.name)


def with_topic_ids(answer: MetadataResponse) -> MetadataResponse:
    """The topics of a Metadata answer that exist, each with its id."""
    topics = [
        topic
        if topic.error_code
        else replace(topic, topic_id=topic_id_of(topic, answer.cluster_id))
        for topic in answer.topics
    ]
    return replace(answer, topics=tuple(topics))


def _racks(
    topic: MetadataResponseTopic, rack_of: Mapping[int, str | None]
) -> tuple[frozenset[str], ...]:
    ordered = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return tuple(
        frozenset(rack for node in partition.replica_nodes if (rack := rack_of.get(node)))
        for partition in ordered
    )
