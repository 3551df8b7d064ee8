"""What happens to one member, and to the partitions that it has."""

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from coordinator.records import RemovalCause
from coordinator.volatile import MemberPhase
from gateway.events.event import GatewayEvent, Level

Protocol: TypeAlias = Literal["classic", "consumer"]

Partitions: TypeAlias = Mapping[str, tuple[int, ...]]
"""Partition numbers by topic."""


class ClientSeen(GatewayEvent):
    """A client asked to join, or said something new of itself; of forwarded groups too."""

    member_id: str
    """The one that it has or was given, empty if it has none yet."""
    client_id: str
    client_host: str
    instance_id: str | None
    """The group.instance.id; null if it is no static member."""
    software_name: str | None
    """As it introduced itself; null if it did not, as clients before Kafka 2.4."""
    software_version: str | None
    protocol: Protocol
    protocol_type: str
    """`consumer`, or what else shares groups in the classic protocol."""
    embedded_version: int | None
    """The lowest version of its embedded subscriptions; null if it has none."""
    assignors: tuple[str, ...]
    """Those that it offers, most wanted first; of the new protocol the one that it asks for."""


class MemberJoined(GatewayEvent):
    """Somebody came into the group, also under a new member id."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    """The group.instance.id of a static member."""
    protocol: Protocol


class MemberLeft(GatewayEvent):
    """A member went, or an admin removed it."""

    member_id: str
    cause: RemovalCause


class MemberFenced(GatewayEvent):
    """A member was put out of the group; it may not know yet."""

    member_id: str
    cause: RemovalCause


class MemberReplaced(GatewayEvent):
    """A static member goes on under another member id, with what it had."""

    member_id: str
    """The old one."""
    replaced_by: str | None
    """The new one."""


class MemberSwitched(GatewayEvent):
    """A member goes on with the other protocol under its own member id."""

    member_id: str
    protocol: Protocol
    """The one that it speaks now."""


class MemberStateMoved(GatewayEvent):
    """A classic member of a consumer group came further with its rebalance, or began one."""

    member_id: str
    from_state: MemberPhase
    to_state: MemberPhase


class _PartitionsMoved(GatewayEvent):
    member_id: str
    member_epoch: int
    """Of a member of a classic group the generation."""
    partitions: Partitions


class PartitionsStated(_PartitionsMoved):
    """A member said what it owns: with a join, or because that has changed.

    The epoch is the one that it named, -1 if it named none.
    """

    level: ClassVar[Level] = "debug"


class PartitionsRevoked(_PartitionsMoved):
    """A member is to give them up, and has them until it says that it did."""


class PartitionsReleased(_PartitionsMoved):
    """A member does not have them any more."""


class PartitionsAssigned(_PartitionsMoved):
    """A member has them from now on."""
