"""A group as the gateway describes it, and whether it is as a step of the demo expects. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kafka_codecs.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kafka_codecs.consumer_group_describe import MemberType
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.describe_groups import DescribedGroup as DescribedClassicGroup

Protocol: TypeAlias = Literal["classic", "consumer"]
"""The values of the client setting `group.protocol`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMember:
    """One member: its client id, its protocol, and its partitions."""

    client_id: str
    protocol: Protocol
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """One description of the group; `protocol` is the group's kind."""

    protocol: Protocol
    state: str
    members: tuple[ObservedMember, ...]

    @classmethod
    def of_consumer_group(cls, group: DescribedConsumerGroup) -> "ObservedGroup":
        """Read an answer to ConsumerGroupDescribe (v1 or later)."""
        return cls(
            protocol="consumer",
            state=group.group_state,
            members=tuple(
                ObservedMember(
                    client_id=member.client_id,
                    protocol=(
                        "classic" if member.member_type == MemberType.CLASSIC else "consumer"
                    ),
                    partitions=tuple(
                        partition
                        for topic in member.assignment.topic_partitions
                        for partition in topic.partitions
                    ),
                )
                for member in group.members
            ),
        )

    @classmethod
    def of_classic_group(cls, group: DescribedClassicGroup) -> "ObservedGroup":
        """Read an answer to DescribeGroups. Raises WireError if an assignment is malformed."""
        return cls(
            protocol="classic",
            state=group.group_state,
            members=tuple(
                ObservedMember(
                    client_id=member.client_id,
                    protocol="classic",
                    partitions=_assigned_partitions(member.member_assignment),
                )
                for member in group.members
            ),
        )


def disagreement(
    view: ObservedGroup,
    *,
    expected: Mapping[str, Protocol],
    owners: Mapping[int, set[str]],
) -> str | None:
    """How the group differs from a settled group as expected; None if it does not.

    `expected` has the protocol of each member by client id. `owners` has the owners of each
    partition according to the clients' callbacks.
    """
    if view.state != "Stable":
        return f"the group is {view.state or 'in no state'}"
    names = Counter(member.client_id for member in view.members)
    if names != Counter(expected.keys()):
        return f"its members are {_join_names(names.elements())}, not {_join_names(expected)}"
    for member in view.members:
        if member.protocol != expected[member.client_id]:
            return f"{member.client_id} is a {member.protocol} member"
    wanted: Protocol = "consumer" if "consumer" in expected.values() else "classic"
    if view.protocol != wanted:
        return f"the group is a {view.protocol} group"
    described: dict[int, set[str]] = {partition: set() for partition in owners}
    for member in view.members:
        for partition in member.partitions:
            described.setdefault(partition, set()).add(member.client_id)
    for partition, members in described.items():
        if len(members) != 1:
            return f"partition {partition} is assigned to {_join_names(members)}"
        if owners.get(partition) != members:
            held_by = _join_names(owners.get(partition, ()))
            return f"partition {partition} is assigned to {_join_names(members)}, held by {held_by}"
    return None


def _assigned_partitions(member_assignment: bytes) -> tuple[int, ...]:
    if not member_assignment:
        return ()
    _, assignment = decode_assignment(member_assignment)
    return tuple(
        partition for topic in assignment.assigned_partitions for partition in topic.partitions
    )


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"
