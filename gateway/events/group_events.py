"""What happens to a group as a whole."""

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from coordinator.records import EpochCause
from coordinator.volatile import ClassicPhase
from gateway.events.event import GatewayEvent, Level

Direction: TypeAlias = Literal["classic->consumer", "consumer->classic"]


class GroupCreated(GatewayEvent):
    """A group came into being."""

    schema_version: ClassVar[int] = 2
    kind: Literal["classic", "consumer"]
    """`classic` speaks the classic protocol, `consumer` that of KIP-848."""


class GroupDeleted(GatewayEvent):
    """A group without members was deleted, or gave way to nothing."""


class GroupConverted(GatewayEvent):
    """A group changed its kind, all its members with it."""

    schema_version: ClassVar[int] = 2
    direction: Direction
    is_live: bool
    """Whether it had members."""
    group_epoch: int | None = None
    """To a consumer group: the epoch that it begins with, its last generation."""
    generation: int | None = None
    """To a classic group: the generation that it begins with."""
    members: int
    """How many went along."""
    cause: str
    """Who joined, left, was fenced or switched, and so brought it about."""


class ConversionRefused(GatewayEvent):
    """A client was turned away that would have converted the group, or brought it nearer to it."""

    schema_version: ClassVar[int] = 2
    direction: Direction
    """The one that it would have taken."""
    member_id: str
    client_id: str
    reason: str
    """As the client was told, if its protocol can say it."""


class GroupForwarded(GatewayEvent):
    """The cluster's own coordinator has the group from now on."""

    reason: str


class GroupTaken(GatewayEvent):
    """Somebody else has the group in the cluster: its members here are fenced."""

    level: ClassVar[Level] = "error"
    reason: str
    """Who is in it."""


class GroupEpochBumped(GatewayEvent):
    """A consumer group needs another target assignment."""

    group_epoch: int
    cause: EpochCause


class TargetComputed(GatewayEvent):
    """An assignor has said which member is to have which partitions."""

    assignment_epoch: int
    """The group epoch that the target is for."""
    assignor: str
    partitions_moved: int
    """Partitions that a member is to have now and was not to have before."""


class GroupStateMoved(GatewayEvent):
    """A classic group went from one state of its rebalance to the next."""

    from_state: ClassicPhase
    to_state: ClassicPhase
    generation: int


class GroupConfigsAltered(GatewayEvent):
    """An admin changed what the group overrides."""

    overrides: Mapping[str, int]
    """All that it overrides now, by Kafka's names."""


class TopicsGone(GatewayEvent):
    """Topics that the group follows were deleted, perhaps to be made anew: their partitions are
    nobody's, and are not told of again."""

    topics: tuple[str, ...]


class RegexResolved(GatewayEvent):
    """A regular expression that members subscribe with stands for other topics than before."""

    regex: str
    matches: int
    """How many topics."""
    added: tuple[str, ...]
    """The first few of those that it did not match before, by name."""
    removed: tuple[str, ...]
    """The first few of those that it matches no longer, by name."""
