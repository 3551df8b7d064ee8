"""The range assignor: a contiguous block of each topic for each subscriber (rule 9.2).

It ignores the old target, so it is sticky only as far as ids are stable, except that it spares
eager members. Topics with equal subscribers and partition counts are co-partitioned, even where
racks break up the blocks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

from coordinator.assignors.group_spec import NOTHING, GroupSpec, Racks, Subscriber, Target
from coordinator.assignors.racks import bring_home
from coordinator.assignors.sparing import release
from coordinator.group.target_loads import Loads
from coordinator.interface.topics import Partition


def assign_range(spec: GroupSpec) -> Target:
    """Assign each subscriber its share of each topic. The first subscribers get the remainder."""
    by_topic = _ranked_subscribers(spec.members)
    spared = _undisturbed_members(spec, by_topic)
    target = {id_: set(_target_of(spec, id_)) if id_ in spared else set() for id_ in spec.members}
    taken = {partition for member_id in spared for partition in target[member_id]}
    rack_of = spec.rack_of
    alike: dict[tuple[tuple[int, ...], tuple[str, ...]], list[UUID]] = {}
    for topic_id, subscribers in by_topic.items():
        count = spec.partition_count(topic_id)
        free = tuple(n for n in range(count) if Partition(topic_id, n) not in taken)
        others = tuple(id_ for id_ in subscribers if id_ not in spared)
        alike.setdefault((free, others), []).append(topic_id)
    for (free, others), topic_ids in alike.items():
        blocks = _blocks(topic_ids[0], free, others)
        bring_home(blocks, rack_of, partial(_common_racks, spec, topic_ids))
        for member_id, block in blocks.items():
            target[member_id].update(Partition(id_, n) for id_ in topic_ids for _, n in block)
    return spec.changes_to(target)


def _blocks(
    topic_id: UUID, numbers: Sequence[int], member_ids: Sequence[str]
) -> dict[str, set[Partition]]:
    """The block of each member."""
    share, extra = divmod(len(numbers), len(member_ids) or 1)
    blocks, start = {}, 0
    for position, member_id in enumerate(member_ids):
        end = start + share + (1 if position < extra else 0)
        blocks[member_id] = {Partition(topic_id, number) for number in numbers[start:end]}
        start = end
    return blocks


def _common_racks(spec: GroupSpec, topic_ids: Sequence[UUID], partition: Partition) -> Racks:
    """The racks that have a replica of the partition with the same number of each topic."""
    alike = (Partition(topic_id, partition.number) for topic_id in topic_ids)
    return frozenset.intersection(*map(spec.racks_of, alike))


def _undisturbed_members(spec: GroupSpec, by_topic: Mapping[UUID, Sequence[str]]) -> set[str]:
    """The members that keep exactly what they have (rule 9.4).

    A member is spared in all topics or in none, so that topics stay co-partitioned.
    """
    if spec.imbalance_percent is None:
        return set()
    spared = {id_ for id_ in spec.spared if _has_only_what_exists(spec, id_)}
    sizes = {id_: Counter(p.topic_id for p in _target_of(spec, id_)) for id_ in spared}
    for topic_id, subscribers in by_topic.items():
        undisturbed, others = Loads(), Loads()
        for member_id in subscribers:
            if member_id in spared:
                undisturbed.put(member_id, sizes[member_id][topic_id])
            else:
                others.put(member_id, 0)
        release(undisturbed, others, spec.partition_count(topic_id), spec.imbalance_percent)
        spared.difference_update(others)
    return spared


def _has_only_what_exists(spec: GroupSpec, member_id: str) -> bool:
    topic_ids = spec.members[member_id].topic_ids
    return all(
        p.topic_id in topic_ids and 0 <= p.number < spec.partition_count(p.topic_id)
        for p in _target_of(spec, member_id)
    )


def _target_of(spec: GroupSpec, member_id: str) -> frozenset[Partition]:
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
