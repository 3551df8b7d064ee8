"""Events about a group as a whole."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Literal, TypeAlias

from pydantic.dataclasses import dataclass

from coordinator.interface.records import EpochCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent, Level, Moment
from gateway.events.member_events import MemberSnapshot, Protocol, TopicIds
from gateway.json_schemas import DOCUMENTED

Direction: TypeAlias = Literal["classic->consumer", "consumer->classic"]

HostingEndCause: TypeAlias = Literal[
    "released",
    "taken",
    "anchor_lost",
    "group_deleted",
    "gateway_ended",
    "forgotten",
]


class GroupCreated(GatewayEvent):
    """A group was created."""

    schema_version: ClassVar[int] = 2
    kind: Literal["classic", "consumer"]
    """The group's protocol: `classic`, or `consumer` (KIP-848)."""


class GroupDeleted(GatewayEvent):
    """An empty group was deleted."""


class GroupConverted(GatewayEvent):
    """A group with all its members changed its kind."""

    schema_version: ClassVar[int] = 2
    direction: Direction
    """The direction of the conversion."""
    is_live: bool
    """Whether the group had members."""
    group_epoch: int | None = None
    """The first group epoch after an upgrade, which is the last generation."""
    generation: int | None = None
    """The first generation after a downgrade."""
    members: int
    """The number of members converted."""
    cause: str
    """The member that joined, left, was fenced or switched, and so triggered the conversion."""


class ConversionRefused(GatewayEvent):
    """The group refused a client whose admission would have started or advanced a conversion."""

    schema_version: ClassVar[int] = 2
    direction: Direction
    """The direction of that conversion."""
    member_id: str
    """The refused client's member id."""
    client_id: str
    """The refused client's client id."""
    reason: str
    """The reason in the response, if the protocol of the client can carry one."""


class StepMadeWorse(GatewayEvent):
    """A consumer changed its protocol, and its group has fallen behind since, or the consumer
    itself."""

    level: ClassVar[Level] = "warning"
    client_id: str
    """The consumer's client id."""
    client_host: str
    """The consumer's address."""
    protocol: Protocol
    """The consumer's new protocol."""
    lag_before: int
    """The records that the group was behind before."""
    lag_after: int
    """The records that the group is behind now."""
    records_per_s_before: float
    """What the group consumed in the minute before, by its commits."""
    records_per_s_after: float
    """What the group has consumed in the last minute."""
    client_lag: int | None = None
    """The records that the consumer's own partitions are behind; null if unknown."""
    bytes_per_s_before: float | None = None
    """What passed to this client, over the life of the connections that it had before; null if
    unknown."""
    bytes_per_s_after: float | None = None
    """What passes to this client on its present connections; null if unknown."""
    fetches_per_s_before: float | None = None
    """The Fetch requests of this client, over the life of the connections that it had before."""
    fetches_per_s_after: float | None = None
    """The Fetch requests of this client on its present connections. A consumer that waits for
    records sends few."""


class ClientFlapped(GatewayEvent):
    """A consumer changes its protocol again and again."""

    level: ClassVar[Level] = "warning"
    client_id: str
    """The consumer's client id."""
    switches: int
    """How often the consumer did so within ten minutes."""
    protocol: Protocol
    """The consumer's present protocol."""


class GroupForwarded(GatewayEvent):
    """The gateway forwards the group to the cluster's own coordinator from now on."""

    reason: str
    """Why the cluster serves the group."""


class HostingStarted(GatewayEvent):
    """The gateway's engine answers for the group from now on. `group_loaded` follows, which says
    what the group has."""

    reason: str
    """Why the gateway hosts the group."""
    anchor_generation: int | None = None
    """The group's generation in the cluster when the gateway's anchor had joined. It orders
    gateways with different state logs, as long as the cluster's group is neither deleted nor
    converted, after which it begins with 1. Null if no anchor has joined yet."""


class AnchorJoined(GatewayEvent):
    """The gateway's anchor has joined the group in the cluster, if the hosting began without it, as
    after a start of the gateway."""

    anchor_generation: int
    """The group's generation in the cluster at that time. It orders gateways."""


class HostingEnded(GatewayEvent):
    """The gateway's engine no longer answers for the group. A process that is killed writes
    none."""

    cause: HostingEndCause
    """What ended it: a release, another member in the cluster (`taken`), the loss of the anchor,
    the group's deletion, the end of the gateway, or that the gateway has forgotten the group, which
    has no members."""


class GroupLoaded(GatewayEvent):
    """The whole state of a hosted group: after a start, after an adoption, and as the group's first
    line in each new file. A reader needs nothing that was written before."""

    level: ClassVar[Level] = "debug"
    kind: Protocol | None
    """The group's protocol; null if there is no group of this name yet."""
    state: str
    """The group's state as admin tools see it; Dead or Empty if there is no group."""
    group_epoch: int
    """The group epoch; for a classic group, the generation."""
    assignment_epoch: int | None = None
    """The group epoch of the target assignment; null for a classic group."""
    members: tuple[MemberSnapshot, ...]
    """The members with their partitions."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of the topics of these partitions, as far as known."""


class ClusterMembersSeen(GatewayEvent):
    """What the cluster shows of a group that the gateway forwards."""

    kind: Protocol | None
    """The group's protocol in the cluster; null if unknown."""
    state: str | None
    """The group's state in the cluster; null if unknown."""
    members: tuple[MemberSnapshot, ...]
    """The members, as far as the cluster and the requests that pass show them."""


class RebalanceEnded(GatewayEvent):
    """A rebalance ended, or the next one began before it was complete."""

    started_ms: Moment
    """When it began, in milliseconds since 1970 (UTC)."""
    epoch: int
    """The group epoch; for a classic group, the generation that the rebalance led to."""
    cause: str
    """What began it: the cause of the group epoch. For a classic group `member_joined`,
    `member_removed`, `converted`, or `member_rejoined`, if a member of the group joined again."""
    members: int
    """The number of members at the end."""
    partitions_moved: int
    """Partitions whose owner at the end is not the owner at the beginning. A static member under a
    new id is the same owner."""
    least_possible: int
    """The fewest moves of any assignment that gives each member as many partitions as it has at the
    end."""
    members_disturbed: int
    """Members from before the rebalance that had to rejoin, or whose partitions changed."""
    unowned_ms: int
    """The time that partitions had no owner, summed over the partitions, in milliseconds."""
    was_interrupted: bool
    """Whether the next rebalance began before this one was complete."""


class StepEnded(GatewayEvent):
    """A consumer came back with the other protocol, and its group is at rest again. It is one step
    of a rolling migration, with its cost."""

    client_id: str
    """The consumer's client id."""
    client_host: str
    """The consumer's address."""
    instance_id: str | None
    """The group.instance.id of a static member."""
    from_protocol: Protocol
    """The consumer's protocol before."""
    to_protocol: Protocol
    """The consumer's protocol now."""
    started_ms: Moment
    """When the consumer left, in milliseconds since 1970 (UTC); when it joined if it came first,
    or if no member left."""
    members: int
    """The number of members at the end."""
    partitions_moved: int
    """Partitions whose owner at the end is not the owner at the beginning. The consumer is the same
    owner before and after."""
    least_possible: int
    """The fewest moves of any assignment that gives each consumer as many partitions as it has at
    the end."""
    members_disturbed: int
    """Other members that had to rejoin, or whose partitions changed."""
    unowned_ms: int
    """The time that partitions had no owner, summed over the partitions, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class Blocker:
    """A member that is in the way of a conversion."""

    client_id: str
    """The member's client id; empty if the reason concerns the whole group."""
    client_host: str
    """The member's address; empty if the reason concerns the whole group."""
    member_id: str
    """The member's id; empty if the reason concerns the whole group."""
    reason: str
    """What is in the way."""


class ReadinessChanged(GatewayEvent):
    """Whether the group can change its protocol has changed, or what is in the way."""

    can_convert: bool
    """Whether the group converts when the right member joins or leaves."""
    direction: Direction
    """The direction of that conversion."""
    blocked_by: tuple[Blocker, ...]
    """What is in the way: the first few."""
    blockers: int
    """The number of all that are in the way."""


class AdoptionStarted(GatewayEvent):
    """The gateway holds the calls of a live group, to take it over from the cluster."""

    members: int
    """The number of members in the cluster."""


class GroupAdopted(GatewayEvent):
    """The gateway's engine has taken over a live group, whose members have noticed nothing."""

    held_ms: int
    """How long calls were held."""


class AdoptionUndone(GatewayEvent):
    """The adoption of a live group was given up, and its members rejoin. The cluster has the group
    again, unless `hosting_started` follows."""

    level: ClassVar[Level] = "warning"
    reason: str
    """What came in between."""
    held_ms: int
    """How long calls were held."""


class ReleaseStarted(GatewayEvent):
    """The members of a group are told to rejoin, so that the cluster can have it back."""

    members: int
    """The number of members here."""


class GroupReleased(GatewayEvent):
    """The cluster has the group back."""

    unowned_ms: int
    """The time from asking the members to rejoin until the cluster could assign the partitions."""


class GroupTaken(GatewayEvent):
    """Another member holds the group in the cluster, so the gateway fenced the members here."""

    level: ClassVar[Level] = "error"
    reason: str
    """The members in the cluster."""


class GenerationWentBack(GatewayEvent):
    """A hosted group has begun again in the cluster: its coordinator has lost the group, it was
    deleted, or a consumer of the new protocol had it and has left. The gateway fenced the members
    here, because others may have had it meanwhile."""

    level: ClassVar[Level] = "warning"
    generation_before: int
    """The latest generation in which the gateway's anchor held the group."""
    generation: int
    """The generation that the cluster shows now."""


class GroupEpochBumped(GatewayEvent):
    """The group epoch of a consumer group grew: a new target assignment is needed."""

    group_epoch: int
    """The new group epoch."""
    cause: EpochCause
    """Why it grew."""


class TargetComputed(GatewayEvent):
    """An assignor computed the target assignment."""

    assignment_epoch: int
    """The group epoch of the target."""
    assignor: str
    """The assignor's name."""
    partitions_moved: int
    """Partitions whose target member changed."""


class AssignmentRejected(GatewayEvent):
    """The group keeps its target assignment, because a plug-in or a member computed none, or a
    wrong one."""

    level: ClassVar[Level] = "warning"
    group_epoch: int
    """The group epoch that the target would have had."""
    assignor: str
    """The assignor's name."""
    reason: str
    """What is wrong with it."""


class GroupStateChanged(GatewayEvent):
    """A classic group entered another state of its rebalance, or was adopted as it was (from Empty
    to Stable)."""

    from_state: ClassicPhase
    """The state before."""
    to_state: ClassicPhase
    """The state from now on."""
    generation: int
    """The group's generation."""


class GroupConfigsAltered(GatewayEvent):
    """An admin changed the configs of the group."""

    overrides: Mapping[str, int]
    """All configs that the group overrides now, by Kafka's names."""


class TopicsDeleted(GatewayEvent):
    """Topics of the group were deleted, and perhaps recreated. Their partitions have no owner any
    more, and no further event mentions them."""

    topics: tuple[str, ...]
    """The names of the topics."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids that the topics had."""


class RegexResolved(GatewayEvent):
    """A subscribed regular expression matches different topics than before."""

    regex: str
    """The regular expression."""
    matches: int
    """The number of matching topics."""
    added: tuple[str, ...]
    """The first few newly matching topics, by name."""
    removed: tuple[str, ...]
    """The first few topics that no longer match, by name."""
