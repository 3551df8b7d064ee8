"""The range assignor: a contiguous block of each topic for each subscriber (rule 9.2).

It ignores the old target, so it is sticky only as far as ids are stable, except that it spares
eager members. Topics with equal subscribers and partition counts are co-partitioned.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from coordinator.assignors.group_spec import NOTHING, GroupSpec, Subscriber, Target
from coordinator.assignors.sparing import release
from coordinator.group.target_loads import Loads
from coordinator.interface.topics import Partition


def assign_range(spec: GroupSpec) -> Target:
    """Assign each subscriber its share of each topic. The first subscribers get the remainder."""
    by_topic = _ranked_subscribers(spec.members)
    spared = _spared(spec, by_topic)
    target = {id_: set(_held(spec, id_)) if id_ in spared else set() for id_ in spec.members}
    kept = {partition for member_id in spared for partition in target[member_id]}
    for topic_id, subscribers in by_topic.items():
        everything = (Partition(topic_id, n) for n in range(spec.partition_count(topic_id)))
        free = [partition for partition in everything if partition not in kept]
        others = [id_ for id_ in subscribers if id_ not in spared]
        share, extra = divmod(len(free), len(others) or 1)
        start = 0
        for position, member_id in enumerate(others):
            end = start + share + (1 if position < extra else 0)
            target[member_id].update(free[start:end])
            start = end
    return spec.changed(target)


def _spared(spec: GroupSpec, by_topic: Mapping[UUID, Sequence[str]]) -> set[str]:
    """The members that keep exactly what they have (rule 9.4).

    A member is spared in all topics or in none, so that topics stay co-partitioned.
    """
    if spec.imbalance_percent is None:
        return set()
    spared = {id_ for id_ in spec.spared if _has_only_what_exists(spec, id_)}
    sizes = {id_: Counter(p.topic_id for p in _held(spec, id_)) for id_ in spared}
    for topic_id, subscribers in by_topic.items():
        mine, others = Loads(), Loads()
        for member_id in subscribers:
            if member_id in spared:
                mine.put(member_id, sizes[member_id][topic_id])
            else:
                others.put(member_id, 0)
        release(mine, others, spec.partition_count(topic_id), spec.imbalance_percent)
        spared.difference_update(others)
    return spared


def _has_only_what_exists(spec: GroupSpec, member_id: str) -> bool:
    topic_ids = spec.members[member_id].topic_ids
    return all(
        p.topic_id in topic_ids and 0 <= p.number < spec.partition_count(p.topic_id)
        for p in _held(spec, member_id)
    )


def _held(spec: GroupSpec, member_id: str) -> frozenset[Partition]:
    return spec.target.get(member_id, NOTHING)


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
