"""The range assignor: a contiguous block of each topic for each subscriber (spec 9.2).

It does not look at the old target: stickiness exists as far as ids are stable. Topics with equal
subscribers and partition counts are co-partitioned.
"""

from collections.abc import Mapping
from uuid import UUID

from coordinator.assignors.subscriber import Subscriber, Target, subscribers_by_topic
from coordinator.topics import Partition


def assign_range(
    members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int], _old: Target
) -> Target:
    """Every member's share of each topic it subscribes to; the first ones get one more."""
    target: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    for topic_id, subscribers in subscribers_by_topic(members).items():
        ordered = sorted(subscribers, key=lambda member_id: _rank(member_id, members[member_id]))
        share, extra = divmod(partition_counts[topic_id], len(ordered))
        start = 0
        for position, member_id in enumerate(ordered):
            end = start + share + (1 if position < extra else 0)
            target[member_id].update(Partition(topic_id, number) for number in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in target.items()}


def _rank(member_id: str, member: Subscriber) -> tuple[bool, str]:
    """Static members first, by instance id; then dynamic ones by member id."""
    return member.instance_id is None, member.instance_id or member_id
