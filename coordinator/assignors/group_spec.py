"""The input and output types of an assignor."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from coordinator.group.target_loads import Loads
from coordinator.group.target_owners import Owners
from coordinator.interface.errors import GroupError
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import Computation, Subscriber
from kafka_codecs.error_codes import ErrorCode

__all__ = ["NOTHING", "GroupSpec", "Racks", "Subscriber", "Target", "spec_of"]

Target = Mapping[str, frozenset[Partition]]
"""Member id to partitions."""

NOTHING: frozenset[Partition] = frozenset()

Racks = frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group as an assignor sees it.

    `target` is the old target, without members that have no partitions. `owners` indexes it by
    partition and `loads` by size; `spared` does the latter for eager members that have exactly
    their target. `racks` has those of each partition's replicas, by topic; it is empty if racks do
    not matter. Iterating over `members` or `target` costs the size of the group; all other access
    is cheap.

    `imbalance_percent` says how uneven a target may become rather than disturb a spared member;
    None if every member rejoins anyway.
    """

    members: Mapping[str, Subscriber]
    subscriber_counts: Mapping[UUID, int]
    partition_counts: Mapping[UUID, int]
    target: Target
    owners: Owners
    loads: Loads
    spared: Loads = field(default_factory=Loads)
    imbalance_percent: int | None = None
    racks: Mapping[UUID, tuple[Racks, ...]] = field(default_factory=dict)

    @property
    def is_homogeneous(self) -> bool:
        """Whether every subscribed topic is subscribed by all members."""
        return all(count == len(self.members) for count in self.subscriber_counts.values())

    def partition_count(self, topic_id: UUID) -> int:
        """Raises GroupError UNKNOWN_SERVER_ERROR if the topic is unknown (rule 9.3)."""
        try:
            return self.partition_counts[topic_id]
        except KeyError:
            raise GroupError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the assignor does not know the topic {topic_id}"
            ) from None

    @property
    def rack_of(self) -> Mapping[str, str]:
        """The racks of the members that have one. Costs the size of the group if racks matter."""
        if not self.racks:
            return {}
        racks = {member_id: member.rack_id for member_id, member in self.members.items()}
        return {member_id: rack for member_id, rack in racks.items() if rack is not None}

    def racks_of(self, partition: Partition) -> Racks:
        """The racks of its replicas; none if they are not known."""
        racks = self.racks.get(partition.topic_id, ())
        return racks[partition.number] if partition.number < len(racks) else frozenset()

    def changes_to(self, target: Mapping[str, set[Partition]]) -> Target:
        """The entries of a complete new target that differ from the old one."""
        return {
            member_id: frozenset(partitions)
            for member_id, partitions in target.items()
            if partitions != self.target.get(member_id, NOTHING)
        }


def spec_of(computation: Computation) -> GroupSpec:
    """What an assignor outside the engine gets to see. Costs the size of the group."""
    owners, loads, spared = Owners(), Loads(), Loads()
    for member_id in computation.members:
        partitions = computation.target.get(member_id, NOTHING)
        owners.give(partitions, member_id)
        (spared if member_id in computation.spared else loads).put(member_id, len(partitions))
    members = computation.members.values()
    return GroupSpec(
        members=computation.members,
        subscriber_counts=Counter(id_ for member in members for id_ in member.topic_ids),
        partition_counts=computation.partition_counts,
        target=computation.target,
        owners=owners,
        loads=loads,
        spared=spared,
        imbalance_percent=computation.imbalance_percent,
        racks=computation.racks,
    )
