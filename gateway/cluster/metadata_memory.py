"""What is told of topics and brokers while no broker answers.

A client that is told of an error for a whole topic may take it for gone and rebalance; so only what
is remembered is told, with partitions that have no leader for now. Pure.
"""

from dataclasses import replace

from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

_LEADER_NOT_AVAILABLE = 5
_NOBODY = -1


def without_leaders(latest: MetadataResponse, request: MetadataRequest) -> MetadataResponse | None:
    """The answer to a request, made from the latest one of the cluster, of which the topics that
    exist are left; None if more is asked."""
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
