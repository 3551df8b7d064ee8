"""Metadata answers while no broker answers. Pure.

Clients take an error for a whole topic as its deletion and rebalance. The answer therefore has only
remembered topics, whose partitions have no leader for now.
"""

from dataclasses import replace

from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

_LEADER_NOT_AVAILABLE = 5
_NOBODY = -1


def without_leaders(latest: MetadataResponse, request: MetadataRequest) -> MetadataResponse | None:
    """The answer to a request, made from the existing topics of the cluster's latest answer; None
    if the request needs more."""
    if request.topics is None:
        return None
    by_name = {topic.name: topic for topic in latest.topics}
    by_id = {topic.topic_id: topic for topic in latest.topics}
    found = [
        by_id.get(asked.topic_id) if asked.name is None else by_name.get(asked.name)
        for asked in request.topics
    ]
    known = tuple(_without_leader(topic) for topic in found if topic is not None)
    return replace(latest, topics=known) if len(known) == len(found) else None


def _without_leader(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    return replace(
        topic,
        partitions=tuple(
            replace(partition, error_code=_LEADER_NOT_AVAILABLE, leader_id=_NOBODY, isr_nodes=())
            for partition in topic.partitions
        ),
    )
