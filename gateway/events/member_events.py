"""Events about one member and its partitions."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Literal, TypeAlias

from pydantic.dataclasses import dataclass

from coordinator.interface.records import RemovalCause
from coordinator.interface.volatile_records import MemberPhase
from gateway.events.event import GatewayEvent, Level
from gateway.json_schemas import DOCUMENTED

Protocol: TypeAlias = Literal["classic", "consumer"]

Partitions: TypeAlias = Mapping[str, tuple[int, ...]]
"""Partition numbers by topic."""

TopicIds: TypeAlias = Mapping[str, str]
"""Topic ids by topic."""

GrantEndCause: TypeAlias = Literal[
    "revoked",
    "left",
    "fenced",
    "replaced",
    "topic_deleted",
    "group_moved",
    "group_deleted",
    "reassigned",
]


@dataclass(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class MemberSnapshot:
    """A member with its partitions."""

    member_id: str
    """The member."""
    instance_id: str | None
    """The group.instance.id of a static member."""
    client_id: str
    """The member's client id."""
    client_host: str
    """The member's address."""
    protocol: Protocol
    """The protocol that it speaks."""
    member_epoch: int | None
    """The member's epoch; for a member of a classic group, the generation. Null if unknown."""
    partitions: Partitions | None
    """The partitions that it holds; null if unknown."""
    pending_revocation: Partitions = field(default_factory=dict)
    """The partitions that the member holds and has to give up."""


class ClientSeen(GatewayEvent):
    """A client asked to join, or changed how it introduces itself. Forwarded groups have this
    event, too."""

    member_id: str
    """The client's member id; empty if it has none yet."""
    client_id: str
    """The client's client id."""
    client_host: str
    """The client's address."""
    instance_id: str | None
    """The group.instance.id; null for a dynamic member."""
    software_name: str | None
    """The client library, from ApiVersions; null for clients older than Kafka 2.4."""
    software_version: str | None
    """The version of the client library, from ApiVersions."""
    protocol: Protocol
    """The protocol that the client joins with."""
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
    """The new member."""
    client_id: str
    """The member's client id."""
    client_host: str
    """The member's address."""
    instance_id: str | None
    """The group.instance.id of a static member."""
    protocol: Protocol
    """The protocol that it speaks."""


class MemberLeft(GatewayEvent):
    """A member left the group, or an admin removed it. Forwarded groups have this event, too."""

    member_id: str
    """The former member."""
    cause: RemovalCause
    """Why it is no longer a member."""


class MemberFenced(GatewayEvent):
    """The group removed a member. The member may not know yet."""

    member_id: str
    """The former member."""
    cause: RemovalCause
    """Why the group removed it."""


class MemberReplaced(GatewayEvent):
    """A static member got a new member id and kept its partitions."""

    member_id: str
    """The old member id."""
    replaced_by: str | None
    """The new member id."""


class MemberSwitched(GatewayEvent):
    """A member changed its protocol and kept its member id."""

    member_id: str
    """The member."""
    protocol: Protocol
    """The new protocol."""


class MemberStateChanged(GatewayEvent):
    """A classic member of a consumer group entered another phase of its rebalance."""

    member_id: str
    """The member."""
    from_state: MemberPhase
    """The phase before."""
    to_state: MemberPhase
    """The phase from now on."""


class MemberChosenToCompute(GatewayEvent):
    """A member is told to compute the target assignment (`client_side_assignors`)."""

    member_id: str
    """The member."""


class _MembersPartitions(GatewayEvent):
    member_id: str
    """The member."""
    member_epoch: int
    """The member's epoch; for a member of a classic group, the generation."""
    partitions: Partitions
    """Partition numbers by topic."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of these topics, as far as known."""


class PartitionsStated(_MembersPartitions):
    """A member stated its partitions, in a join or because they changed.

    The epoch is the one in the request, or -1.
    """

    level: ClassVar[Level] = "debug"


class PartitionsRevoked(_MembersPartitions):
    """A member has to give up partitions. It holds them until it confirms."""


class PartitionsAssigned(_MembersPartitions):
    """A grant: a member holds these partitions from now on, until `grant_ended`."""


class GrantEnded(_MembersPartitions):
    """A member no longer holds these partitions. Every grant ends with this event, or with the
    log."""

    cause: GrantEndCause
    """Why it ended: the member confirmed a revocation (`revoked`), left, was removed by the group
    (`fenced`), was replaced by another member id, the leader of a classic group assigned the
    partitions again (`reassigned`), the topic or the group was deleted, or the group is no longer
    hosted here (`group_moved`)."""
    successor: str | None = None
    """The member id that has the partitions next, if that is decided with the end."""
