"""The durable records: the KIP's data model (KIP-848, "Record Schema"), the only ones logged.

One request leaves one batch of them, all or none. `None` as a value is a tombstone. `cause` says
why, so that events can be told from the records alone, also after a restart. The volatile
records, which a restart forgets, are in `volatile.py`.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from coordinator.topics import Partition

Protocols = tuple[tuple[str, bytes], ...]
"""A classic member's protocol list, most wanted first: (name, embedded subscription)."""


class RemovalCause(StrEnum):
    """Why a member's records were deleted."""

    LEFT = "left"
    REMOVED_BY_ADMIN = "removed_by_admin"
    SESSION_EXPIRED = "session_expired"
    REVOCATION_TIMED_OUT = "revocation_timed_out"
    JOIN_TIMED_OUT = "join_timed_out"
    SYNC_TIMED_OUT = "sync_timed_out"
    GROUP_FULL = "group_full"
    REPLACED = "replaced"
    GROUP_CONVERTED = "group_converted"
    GROUP_TAKEN = "group_taken"


class EpochCause(StrEnum):
    """Why a group epoch was written."""

    CONVERTED = "converted"
    REBALANCE_INTERRUPTED = "rebalance_interrupted"
    MEMBER_JOINED = "member_joined"
    MEMBER_REMOVED = "member_removed"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    RACK_CHANGED = "rack_changed"
    ASSIGNOR_CHANGED = "assignor_changed"
    REGEX_RESOLVED = "regex_resolved"
    TOPICS_CHANGED = "topics_changed"
    GROUP_REMOVED = "group_removed"


class MemberState(IntEnum):
    """How far a member of a consumer group is with its target (stored as Kafka stores it)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupMember:
    """A member of a classic group. `assignment` is what the leader gave it, opaque bytes.

    DEV D43: the whole protocol list is kept, where Kafka keeps the selected one only: after a
    restart a rejoin with the same list is then no change.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""

    def metadata_for(self, protocol: str | None) -> bytes:
        """The embedded subscription for one protocol, empty if the member does not offer it."""
        return dict(self.protocols).get(protocol or "", b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupValue:
    """A classic group as it stood when its leader last distributed an assignment."""

    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[ClassicGroupMember, ...] = ()
    unwatched_hash: int | None = None
    """The metadata hash of the members' topics, while no leader watches them; None if one does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupMetadata:
    """The classic group; a tombstone when it is removed or converted."""

    value: ClassicGroupValue | None

    @property
    def key(self) -> Hashable:
        return "classic_group_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberRemoval:
    """A member of the newest `ClassicGroupMetadata` that is in the group no longer. Its client may
    have been told, so a restart must not bring it back. A tombstone, without a cause, once that
    record is written again or gone."""

    member_id: str
    cause: RemovalCause | None

    @property
    def key(self) -> Hashable:
        return ("classic_member_removal", self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """The consumer group's epoch and the hash of the topics it was bumped for."""

    epoch: int | None
    metadata_hash: int = 0
    cause: EpochCause

    @property
    def key(self) -> Hashable:
        return "group_epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMetadata:
    """What makes a member of a consumer group a classic one: it came by JoinGroup."""

    session_timeout_ms: int
    protocols: Protocols


class Subscription(NamedTuple):
    """What a member subscribes to: the union of both. `topic_names` is sorted."""

    topic_names: tuple[str, ...]
    topic_regex: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a consumer group as it described itself. `topic_names` is sorted."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topic_names: tuple[str, ...] = ()
    topic_regex: str = ""
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @property
    def subscription(self) -> Subscription:
        return Subscription(self.topic_names, self.topic_regex)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """One member of a consumer group; `cause` says why a tombstone was written."""

    member_id: str
    value: Member | None
    cause: RemovalCause | None = None

    @property
    def key(self) -> Hashable:
        return ("member_metadata", self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMetadata:
    """The epoch of the target assignment. `timestamp_ms` 0: the next one is not delayed."""

    epoch: int | None
    timestamp_ms: int = 0
    assignor: str | None = None

    @property
    def key(self) -> Hashable:
        return "target_assignment_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMember:
    """The partitions that the assignor wants one member to have."""

    member_id: str
    partitions: frozenset[Partition] | None

    @property
    def key(self) -> Hashable:
        return ("target_assignment_member", self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a member holds. Both mappings give the assignment epoch of each partition.

    `assigned` is granted; `pending_revocation` was granted, must be given up and still counts as
    held (KIP-848, "Reconciliation").
    """

    member_epoch: int
    previous_epoch: int
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Partition, int] = field(default_factory=dict)
    pending_revocation: Mapping[Partition, int] = field(default_factory=dict)

    @property
    def held(self) -> Mapping[Partition, int]:
        """What nobody else may be granted."""
        return {**self.assigned, **self.pending_revocation}

    def covers(self, epoch: int, partitions: Iterable[Partition]) -> bool:
        """Whether the member may commit these partitions with this epoch (rule 3.15).

        An older epoch will do for partitions that it has held ever since (KIP-1251).
        """
        if epoch == self.member_epoch:
            return True
        if epoch > self.member_epoch:
            return False
        held_since = self.held
        return all(p in held_since and epoch >= held_since[p] for p in partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What one member of a consumer group holds now."""

    member_id: str
    value: Assignment | None

    @property
    def key(self) -> Hashable:
        return ("current_assignment", self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigs:
    """What the group overrides, by Kafka's names. Not part of the group: nothing but another one of
    these takes it back. Names that nobody knows any more are kept and do nothing."""

    overrides: Mapping[str, int]

    @property
    def key(self) -> Hashable:
        return "group_configs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that a regular expression matched. `version` is that of the cluster's topic names
    (`Topics.names_version`), `timestamp_ms` the time when the resolution started."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularExpression:
    """A regular expression that members subscribe with, and what it stands for."""

    regex: str
    value: ResolvedRegex | None

    @property
    def key(self) -> Hashable:
        return ("regular_expression", self.regex)


DurableRecord = (
    GroupConfigs
    | ClassicGroupMetadata
    | ClassicMemberRemoval
    | GroupEpoch
    | MemberMetadata
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentAssignment
    | RegularExpression
)


def is_tombstone(record: DurableRecord) -> bool:
    """Whether a record only says that what its key stands for is gone."""
    match record:
        case GroupEpoch(epoch=None) | TargetAssignmentMetadata(epoch=None):
            return True
        case TargetAssignmentMember(partitions=None):
            return True
        case ClassicGroupMetadata(value=None) | MemberMetadata(value=None):
            return True
        case CurrentAssignment(value=None) | RegularExpression(value=None):
            return True
        case ClassicMemberRemoval(cause=None):
            return True
        case GroupConfigs(overrides=overrides):
            return not overrides
        case _:
            return False
