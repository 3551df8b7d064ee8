"""The uniform assignor for groups with different subscriptions (rule 9.1).

Partitions start with their old owners, and those without an owner go to the least loaded
subscriber. A bounded number of passes then moves single partitions while that improves the balance.
A spared member (rule 9.4) neither gets nor loses one while the others balance their loads, and
later only where the difference exceeds the allowed imbalance; from then on it is like all others.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from uuid import UUID

from coordinator.assignors.group_spec import NOTHING, GroupSpec, Target
from coordinator.interface.topics import Partition

BALANCING_PASSES_MAX = 16


def assign_heterogeneously(spec: GroupSpec) -> Target:
    """Compute the target. The cost follows the size of the group, not only the change."""
    plan = _Plan(spec)
    plan.spread()
    plan.balance()
    if plan.spared:
        plan.slack = plan.allowed_slack
        plan.balance()
    return spec.changes_to(plan.target)


class _Plan:
    """A target under construction. The least loaded member has the fewest partitions; the smallest
    member id breaks a tie. A spared member counts as having `slack` partitions more when it would
    get one, and as many less when it would lose one."""

    def __init__(self, spec: GroupSpec) -> None:
        self._counts = {id_: spec.partition_count(id_) for id_ in spec.subscriber_counts}
        self._subscribers: dict[UUID, list[str]] = {topic_id: [] for topic_id in self._counts}
        self._owners: dict[Partition, str] = {}
        self.target: dict[str, set[Partition]] = {}
        for member_id, member in spec.members.items():
            remaining = {
                partition
                for partition in spec.target.get(member_id, NOTHING)
                if partition.topic_id in member.topic_ids
                and 0 <= partition.number < self._counts[partition.topic_id]
            }
            self.target[member_id] = remaining
            self._owners.update(dict.fromkeys(remaining, member_id))
            for topic_id in member.topic_ids:
                self._subscribers[topic_id].append(member_id)
        allowed = sum(self._counts.values()) * (spec.imbalance_percent or 0)
        self.allowed_slack = allowed // (100 * len(spec.members))
        self.slack = sum(self._counts.values())  # more than any load
        self.spared = set[str]()
        if spec.imbalance_percent is not None:
            held = spec.target
            self.spared = {i for i in spec.spared if self.target[i] == held.get(i, NOTHING)}

    def spread(self) -> None:
        """Assign free partitions: topics with most partitions per subscriber first, then those with
        fewer subscribers."""
        for topic_id in sorted(self._counts, key=self._urgency):
            ranking = _Ranking(self._weight, self._subscribers[topic_id])
            for number in range(self._counts[topic_id]):
                partition = Partition(topic_id, number)
                if partition not in self._owners:
                    self._give(partition, ranking)

    def balance(self) -> None:
        """Move partitions while that improves the balance."""
        for _ in range(BALANCING_PASSES_MAX):
            if not self._improve():
                break

    def _improve(self) -> bool:
        """Move each partition to its least loaded subscriber if that improves the balance. False if
        none moved."""
        has_moved = False
        for topic_id in sorted(self._counts):
            ranking = _Ranking(self._weight, self._subscribers[topic_id])
            for number in range(self._counts[topic_id]):
                partition = Partition(topic_id, number)
                owner = self._owners[partition]
                lightest_load = self._weight(ranking.least_loaded())
                if len(self.target[owner]) - self._slack_of(owner) > lightest_load + 1:
                    self.target[owner].remove(partition)
                    self.spared.discard(owner)
                    ranking.record(owner)
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
        self.spared.discard(receiver)
        ranking.record(receiver)

    def _weight(self, member_id: str) -> int:
        return len(self.target[member_id]) + self._slack_of(member_id)

    def _slack_of(self, member_id: str) -> int:
        return self.slack if member_id in self.spared else 0


class _Ranking:
    """The subscribers of a topic by load. Stale entries are dropped lazily."""

    def __init__(self, load_of: Callable[[str], int], member_ids: Sequence[str]) -> None:
        self._load_of = load_of
        self._heap = [(load_of(member_id), member_id) for member_id in member_ids]
        heapify(self._heap)

    def record(self, member_id: str) -> None:
        """The load of this member has changed."""
        heappush(self._heap, (self._load_of(member_id), member_id))

    def least_loaded(self) -> str:
        while True:
            load, member_id = self._heap[0]
            if load == self._load_of(member_id):
                return member_id
            heappop(self._heap)
