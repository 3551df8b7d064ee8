"""The uniform assignor for groups with different subscriptions (rule 9.1).

Partitions start with their old owners, and those without an owner go to the least loaded
subscriber. A bounded number of passes then moves single partitions while that improves the balance.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from uuid import UUID

from coordinator.assignors.group_spec import NOTHING, GroupSpec, Target
from coordinator.interface.topics import Partition

BALANCING_PASSES_MAX = 16


def assign_heterogeneously(spec: GroupSpec) -> Target:
    """Compute the target. The cost follows the size of the group, not only the change."""
    plan = _Plan(spec)
    plan.spread()
    for _ in range(BALANCING_PASSES_MAX):
        if not plan.improve():
            break
    return spec.changed(plan.target)


class _Plan:
    """A target under construction. The least loaded member has the fewest partitions; the smallest
    member id breaks a tie."""

    def __init__(self, spec: GroupSpec) -> None:
        self._counts = {id_: spec.partition_count(id_) for id_ in spec.subscriber_counts}
        self._subscribers: dict[UUID, list[str]] = {topic_id: [] for topic_id in self._counts}
        self._owners: dict[Partition, str] = {}
        self.target: dict[str, set[Partition]] = {}
        for member_id, member in spec.members.items():
            kept = {
                partition
                for partition in spec.target.get(member_id, NOTHING)
                if partition.topic_id in member.topic_ids
                and 0 <= partition.number < self._counts[partition.topic_id]
            }
            self.target[member_id] = kept
            self._owners.update(dict.fromkeys(kept, member_id))
            for topic_id in member.topic_ids:
                self._subscribers[topic_id].append(member_id)

    def spread(self) -> None:
        """Assign free partitions: topics with most partitions per subscriber first, then those with
        fewer subscribers."""
        for topic_id in sorted(self._counts, key=self._urgency):
            ranking = _Ranking(self.target, self._subscribers[topic_id])
            for number in range(self._counts[topic_id]):
                partition = Partition(topic_id, number)
                if partition not in self._owners:
                    self._give(partition, ranking)

    def improve(self) -> bool:
        """Move each partition to its least loaded subscriber if that improves the balance. False if
        none moved."""
        has_moved = False
        for topic_id in sorted(self._counts):
            ranking = _Ranking(self.target, self._subscribers[topic_id])
            for number in range(self._counts[topic_id]):
                partition = Partition(topic_id, number)
                owner = self._owners[partition]
                if len(self.target[owner]) > len(self.target[ranking.least_loaded()]) + 1:
                    self.target[owner].remove(partition)
                    ranking.note(owner)
                    self._give(partition, ranking)
                    has_moved = True
        return has_moved

    def _urgency(self, topic_id: UUID) -> tuple[float, int, UUID]:
        count, subscribers = self._counts[topic_id], len(self._subscribers[topic_id])
        return -count / subscribers, subscribers, topic_id

    def _give(self, partition: Partition, ranking: "_Ranking") -> None:
        receiver = ranking.least_loaded()
        self.target[receiver].add(partition)
        self._owners[partition] = receiver
        ranking.note(receiver)


class _Ranking:
    """The subscribers of a topic by load. Stale entries are dropped lazily."""

    def __init__(self, target: Mapping[str, set[Partition]], member_ids: Sequence[str]) -> None:
        self._target = target
        self._heap = [(len(target[member_id]), member_id) for member_id in member_ids]
        heapify(self._heap)

    def note(self, member_id: str) -> None:
        """The load of this member has changed."""
        heappush(self._heap, (len(self._target[member_id]), member_id))

    def least_loaded(self) -> str:
        while True:
            load, member_id = self._heap[0]
            if load == len(self._target[member_id]):
                return member_id
            heappop(self._heap)
