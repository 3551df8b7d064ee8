"""Events about one member and its partitions."""

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from coordinator.interface.records import RemovalCause
from coordinator.interface.volatile_records import MemberPhase
from gateway.events.event import GatewayEvent, Level

Protocol: TypeAlias = Literal["classic", "consumer"]

Partitions: TypeAlias = Mapping[str, tuple[int, ...]]
"""Partition numbers by topic."""


class ClientSeen(GatewayEvent):
    """A client asked to join, or changed how it introduces itself. Also for forwarded groups."""

    member_id: str
    """The client's member id; empty if it has none yet."""
    client_id: str
    client_host: str
    instance_id: str | None
    """The group.instance.id; null for a dynamic member."""
    software_name: str | None
    """The client library, from ApiVersions; null for clients older than Kafka 2.4."""
    software_version: str | None
    protocol: Protocol
    protocol_type: str
    """`consumer`, or another protocol type such as `connect`."""
    embedded_version: int | None
    """The lowest version of the client's embedded subscriptions; null if it has none."""
    assignors: tuple[str, ...]
    """The assignors that the client supports, preferred first; of a native member the requested
    one, or those that it runs itself."""
    tls_subject: str | None = None
    """The subject of the certificate that the client showed to the gateway; null without one."""


class MemberJoined(GatewayEvent):
    """A member joined the group, or came with an adopted one. A known client that returns with a
    new member id counts too."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    """The group.instance.id of a static member."""
    protocol: Protocol


class MemberLeft(GatewayEvent):
    """A member left the group, or an admin removed it. Also for forwarded groups."""

    member_id: str
    cause: RemovalCause


class MemberFenced(GatewayEvent):
    """The group removed a member. The member may not know yet."""

    member_id: str
    cause: RemovalCause


class MemberReplaced(GatewayEvent):
    """A static member got a new member id and kept its partitions."""

    member_id: str
    """The old member id."""
    replaced_by: str | None
    """The new member id."""


class MemberSwitched(GatewayEvent):
    """A member changed its protocol and kept its member id."""

    member_id: str
    protocol: Protocol
    """The new protocol."""


class MemberStateMoved(GatewayEvent):
    """A classic member of a consumer group entered another phase of its rebalance."""

    member_id: str
    from_state: MemberPhase
    to_state: MemberPhase


class MemberChosenToCompute(GatewayEvent):
    """A member is told to compute the target assignment (`client_side_assignors`)."""

    member_id: str


class _PartitionsMoved(GatewayEvent):
    member_id: str
    member_epoch: int
    """For a member of a classic group, the generation."""
    partitions: Partitions


class PartitionsStated(_PartitionsMoved):
    """A member stated its partitions, in a join or because they changed.

    The epoch is the one in the request, or -1.
    """

    level: ClassVar[Level] = "debug"


class PartitionsRevoked(_PartitionsMoved):
    """A member has to give up partitions. It holds them until it confirms."""


class PartitionsReleased(_PartitionsMoved):
    """A member no longer holds these partitions."""


class PartitionsAssigned(_PartitionsMoved):
    """A member holds these partitions from now on."""
