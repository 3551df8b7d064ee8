"""Metadata answers while no broker answers. Pure.

Clients take an error for a whole topic as its deletion and rebalance. The answer therefore has only
remembered topics, whose partitions have no leader for now.
"""

from dataclasses import replace

from gateway.cluster.topics import requested_ids
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

FIRST_VERSION_WITH_NO_TOPICS = 1
"""The first version in which an empty list requests no topics. Before it requests all of them."""

_LEADER_NOT_AVAILABLE = 5
_NOBODY = -1


def without_leaders(
    latest: MetadataResponse, request: MetadataRequest, version: int
) -> MetadataResponse | None:
    """The answer to a request of this version, made from the existing topics of the cluster's
    latest answer; None if the request needs more."""
    if request.topics is None or (version < FIRST_VERSION_WITH_NO_TOPICS and not request.topics):
        return None
    if topic_ids := requested_ids(request):
        by_id = {topic.topic_id: topic for topic in latest.topics}
        remembered = [by_id.get(topic_id) for topic_id in topic_ids]
    else:
        by_name = {topic.name: topic for topic in latest.topics}
        remembered = [by_name.get(topic.name) for topic in request.topics]
    known = tuple(_without_leader(topic) for topic in remembered if topic is not None)
    return replace(latest, topics=known) if len(known) == len(remembered) else None


def _without_leader(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    return replace(
        topic,
        partitions=tuple(
            replace(partition, error_code=_LEADER_NOT_AVAILABLE, leader_id=_NOBODY, isr_nodes=())
            for partition in topic.partitions
        ),
    )
