"""The uniform assignor: equal numbers of partitions, moving as few as possible (spec 9.1).

Balance comes before stickiness. With equal subscriptions the sizes differ by one at most; with
different ones no single move improves the balance, within a bounded number of passes.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from coordinator.assignors.subscriber import Subscriber, Target, subscribers_by_topic
from coordinator.topics import Partition

BALANCING_PASSES_MAX = 16


def assign_uniformly(
    members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int], old: Target
) -> Target:
    """Keep of the old target what balance allows, and spread the rest."""
    if not members:
        return {}
    by_topic = subscribers_by_topic(members)
    kept = {
        member_id: {
            partition
            for partition in old.get(member_id, frozenset())
            if partition.topic_id in member.topic_ids
            and partition.number < partition_counts[partition.topic_id]
        }
        for member_id, member in sorted(members.items())
    }
    if all(len(subscribers) == len(members) for subscribers in by_topic.values()):
        target = _assign_homogeneous(kept, _partitions(by_topic, partition_counts))
    else:
        target = _assign_heterogeneous(kept, by_topic, partition_counts)
    return {member_id: frozenset(partitions) for member_id, partitions in target.items()}


def _partitions(topic_ids: Iterable[UUID], counts: Mapping[UUID, int]) -> list[Partition]:
    return [
        Partition(topic_id, number) for topic_id in topic_ids for number in range(counts[topic_id])
    ]


def _assign_homogeneous(
    kept: dict[str, set[Partition]], partitions: list[Partition]
) -> dict[str, set[Partition]]:
    share, extra = divmod(len(partitions), len(kept))
    # Whoever holds more already gets the one more (KAFKA-18688: the first ones got it, and
    # partitions moved without need).
    by_size = sorted(kept, key=lambda member_id: -len(kept[member_id]))
    quota = {
        member_id: share + (1 if position < extra else 0)
        for position, member_id in enumerate(by_size)
    }
    target = {
        member_id: set(sorted(partitions_kept)[: quota[member_id]])
        for member_id, partitions_kept in kept.items()
    }
    taken = {partition for partitions_kept in target.values() for partition in partitions_kept}
    free = iter([partition for partition in partitions if partition not in taken])
    for member_id, mine in target.items():
        for _ in range(quota[member_id] - len(mine)):
            mine.add(next(free))
    return target


def _assign_heterogeneous(
    kept: dict[str, set[Partition]],
    by_topic: Mapping[UUID, list[str]],
    counts: Mapping[UUID, int],
) -> dict[str, set[Partition]]:
    target = {member_id: set(partitions) for member_id, partitions in kept.items()}
    owners = {p: member_id for member_id, partitions in kept.items() for p in partitions}
    for topic_id in sorted(
        by_topic,
        key=lambda id_: (-counts[id_] / len(by_topic[id_]), len(by_topic[id_]), id_),
    ):
        for partition in _partitions([topic_id], counts):
            if partition not in owners:
                receiver = min(by_topic[topic_id], key=lambda member_id: len(target[member_id]))
                target[receiver].add(partition)
                owners[partition] = receiver
    for _ in range(BALANCING_PASSES_MAX):
        if not _improve(target, owners, by_topic):
            break
    return target


def _improve(
    target: dict[str, set[Partition]],
    owners: dict[Partition, str],
    by_topic: Mapping[UUID, list[str]],
) -> bool:
    """Move each partition to its least loaded subscriber where that helps; False if none moved."""
    has_moved = False
    for partition in sorted(owners):
        owner = owners[partition]
        receiver = min(by_topic[partition.topic_id], key=lambda member_id: len(target[member_id]))
        if len(target[owner]) > len(target[receiver]) + 1:
            target[owner].remove(partition)
            target[receiver].add(partition)
            owners[partition] = receiver
            has_moved = True
    return has_moved
