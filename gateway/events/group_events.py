"""Events about a group as a whole."""

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from coordinator.interface.records import EpochCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent, Level

Direction: TypeAlias = Literal["classic->consumer", "consumer->classic"]


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
    is_live: bool
    """Whether the group had members."""
    group_epoch: int | None = None
    """For an upgrade: the first group epoch, which is the last generation."""
    generation: int | None = None
    """For a downgrade: the first generation."""
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
    client_id: str
    reason: str
    """The reason in the response, if the protocol of the client can carry one."""


class StepMadeWorse(GatewayEvent):
    """A consumer changed its protocol, and its group has fallen behind since, or the consumer
    itself."""

    level: ClassVar[Level] = "warning"
    client_id: str
    client_host: str
    protocol: Literal["classic", "consumer"]
    """The consumer's new protocol."""
    lag_before: int
    """The records that the group was behind before."""
    lag_after: int
    records_per_s_before: float
    """What the group consumed in the minute before, by its commits."""
    records_per_s_after: float
    client_lag: int | None = None
    """The records that the consumer's own partitions are behind; null if unknown."""
    bytes_per_s_before: float | None = None
    """What passed to this client, over the life of the connections that it had before; null if
    unknown."""
    bytes_per_s_after: float | None = None
    """The same of its present connections."""
    fetches_per_s_before: float | None = None
    """The Fetch requests of this client, over the life of the connections that it had before."""
    fetches_per_s_after: float | None = None
    """The same on its present connections. A consumer that waits for records sends few."""


class ClientFlapped(GatewayEvent):
    """A consumer changes its protocol again and again."""

    level: ClassVar[Level] = "warning"
    client_id: str
    switches: int
    """How often it did so within ten minutes."""
    protocol: Literal["classic", "consumer"]
    """Its protocol now."""


class GroupForwarded(GatewayEvent):
    """The gateway forwards the group to the cluster's own coordinator from now on."""

    reason: str


class GroupHosted(GatewayEvent):
    """The gateway's engine answers for the group from now on."""

    reason: str


class AdoptionStarted(GatewayEvent):
    """The gateway holds the calls of a live group, to take it over from the cluster."""

    members: int


class GroupAdopted(GatewayEvent):
    """The gateway's engine has taken over a live group, whose members have noticed nothing."""

    held_ms: int
    """For how long calls were held."""


class AdoptionUndone(GatewayEvent):
    """The adoption of a live group was given up, and its members rejoin. The cluster has the group
    again, unless `group_hosted` follows."""

    level: ClassVar[Level] = "warning"
    reason: str
    held_ms: int
    """For how long calls were held."""


class ReleaseStarted(GatewayEvent):
    """The members of a group are told to rejoin, so that the cluster can have it back."""

    members: int


class GroupReleased(GatewayEvent):
    """The cluster has the group back."""

    unowned_ms: int
    """The time from the members' recall until the cluster could give out the partitions."""


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


class GroupEpochBumped(GatewayEvent):
    """The group epoch of a consumer group grew: a new target assignment is needed."""

    group_epoch: int
    cause: EpochCause


class TargetComputed(GatewayEvent):
    """An assignor computed the target assignment."""

    assignment_epoch: int
    """The group epoch of the target."""
    assignor: str
    partitions_moved: int
    """Partitions whose target member changed."""


class AssignmentRejected(GatewayEvent):
    """The group keeps its target assignment, because a plug-in or a member computed none, or a
    wrong one."""

    level: ClassVar[Level] = "warning"
    group_epoch: int
    """The group epoch that the target would have had."""
    assignor: str
    reason: str
    """What is wrong with it."""


class GroupStateMoved(GatewayEvent):
    """A classic group entered another state of its rebalance, or was adopted as it was (from Empty
    to Stable)."""

    from_state: ClassicPhase
    to_state: ClassicPhase
    generation: int


class GroupConfigsAltered(GatewayEvent):
    """An admin changed the configs of the group."""

    overrides: Mapping[str, int]
    """All configs that the group overrides now, by Kafka's names."""


class TopicsGone(GatewayEvent):
    """Topics of the group were deleted, and perhaps recreated. Their partitions have no owner any
    more, and no further event mentions them."""

    topics: tuple[str, ...]


class RegexResolved(GatewayEvent):
    """A subscribed regular expression matches different topics than before."""

    regex: str
    matches: int
    """The number of matching topics."""
    added: tuple[str, ...]
    """The first few newly matching topics, by name."""
    removed: tuple[str, ...]
    """The first few topics that no longer match, by name."""
