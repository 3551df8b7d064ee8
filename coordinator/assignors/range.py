"""The range assignor: a contiguous block of each topic for each subscriber (rule 9.2).

It ignores the old target, so it is sticky only as far as ids are stable. Topics with equal
subscribers and partition counts are co-partitioned.
"""

from collections.abc import Mapping
from uuid import UUID

from coordinator.assignors.group_spec import GroupSpec, Subscriber, Target
from coordinator.interface.topics import Partition


def assign_range(spec: GroupSpec) -> Target:
    """Assign each subscriber its share of each topic. The first subscribers get the remainder."""
    target: dict[str, set[Partition]] = {member_id: set() for member_id in spec.members}
    for topic_id, subscribers in _ranked_subscribers(spec.members).items():
        share, extra = divmod(spec.partition_count(topic_id), len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + share + (1 if position < extra else 0)
            target[member_id].update(Partition(topic_id, number) for number in range(start, end))
            start = end
    return spec.changed(target)


def _ranked_subscribers(members: Mapping[str, Subscriber]) -> dict[UUID, list[str]]:
    by_topic: dict[UUID, list[str]] = {}
    for member_id, member in sorted(members.items(), key=_rank):
        for topic_id in member.topic_ids:
            by_topic.setdefault(topic_id, []).append(member_id)
    return by_topic


def _rank(item: tuple[str, Subscriber]) -> tuple[bool, str]:
    """Static members first, by instance id; then dynamic ones by member id."""
    member_id, member = item
    return member.instance_id is None, member.instance_id or member_id
