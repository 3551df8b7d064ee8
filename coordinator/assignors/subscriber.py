"""What an assignor is told of a member, and the shape of its answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from coordinator.topics import Partition

Target = Mapping[str, frozenset[Partition]]
"""Member id to partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """`topic_ids` holds only topics that exist."""

    instance_id: str | None
    topic_ids: frozenset[UUID]


def subscribers_by_topic(members: Mapping[str, Subscriber]) -> dict[UUID, list[str]]:
    """Member ids by topic, both sorted, so that the same input gives the same output."""
    by_topic: dict[UUID, list[str]] = {}
    for member_id in sorted(members):
        for topic_id in members[member_id].topic_ids:
            by_topic.setdefault(topic_id, []).append(member_id)
    return {topic_id: by_topic[topic_id] for topic_id in sorted(by_topic)}
