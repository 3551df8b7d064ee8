"""The durable records, which the state log stores: the data model of KIP-848 ("Record Schema").

Each request writes one batch of them, all or none. The value `None` is a tombstone. `cause` has the
reason, so that events can be made from the records alone. The volatile records, which a restart
forgets, are in `volatile_records.py`.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from coordinator.interface.topics import Partition
from coordinator.interface.value import value

Protocols = tuple[tuple[str, bytes], ...]
"""A classic member's protocols, preferred first: (name, embedded subscription)."""


COOPERATIVE_STICKY = "cooperative-sticky"
"""The assignor of clients that keep their partitions while they rejoin (KIP-429)."""


def protocol_names(protocols: Protocols) -> tuple[str, ...]:
    """Each name once, preferred first."""
    return tuple(dict.fromkeys([name for name, _ in protocols]))


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
    GENERATION_WENT_BACK = "generation_went_back"
    RELEASED = "released"


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
    LOADS_UNEVEN = "loads_uneven"
    GROUP_REMOVED = "group_removed"


class MemberState(IntEnum):
    """A member's progress towards its target; the numbers are Kafka's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@value()
class ClassicGroupMember:
    """A member of a classic group. `assignment` has the leader's opaque bytes.

    DEV D43: the record keeps the whole protocol list, where Kafka keeps only the selected protocol.
    After a restart, a rejoin with the same list is then no change.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""

    @property
    def is_native(self) -> bool:
        """Whether it uses the new protocol. Only a release has such members: see `ReleaseState`."""
        return not self.protocols

    def metadata_for(self, protocol: str | None) -> bytes:
        """The embedded subscription for one protocol, empty if the member does not offer it."""
        return dict(self.protocols).get(protocol or "", b"")


@value()
class ClassicGroupValue:
    """A classic group at the time when its leader last distributed an assignment."""

    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[ClassicGroupMember, ...] = ()
    unwatched_hash: int | None = None
    """The metadata hash of the members' topics while no leader watches them; None if one does."""
    older_epochs: Mapping[str, int] = field(default_factory=dict)
    """The epochs of members that have not learned the generation since a downgrade, by member id
    (deviation D8)."""


@value()
class ClassicGroupMetadata:
    """The classic group; a tombstone when it is removed or converted."""

    value: ClassicGroupValue | None

    @property
    def key(self) -> Hashable:
        return "classic_group_metadata"


@value()
class ClassicMemberRemoval:
    """A member of the newest `ClassicGroupMetadata` that has left the group since. Its client may
    know, so a restart must not bring it back. The next `ClassicGroupMetadata` or its tombstone
    makes this record obsolete; it then gets a tombstone, which has no cause."""

    member_id: str
    cause: RemovalCause | None

    @property
    def key(self) -> Hashable:
        return ("classic_member_removal", self.member_id)


@value()
class ClassicGenerationBegun:
    """A later generation than that of the newest `ClassicGroupMetadata`, which members may know
    before their assignments are stored. A restart must not begin it again. It becomes obsolete as
    removals do; its tombstone has no generation."""

    generation: int | None

    @property
    def key(self) -> Hashable:
        return "classic_generation_begun"


@value()
class AdoptionState:
    """A classic group of another coordinator that this one is about to take over."""

    group: ClassicGroupValue
    """The group as it continues here: its generation, leader, members and assignments."""
    lock_generation: int | None = None
    """The other coordinator's generation in which only one member is left there, which admits no
    other member. None until then."""


@value()
class AdoptionRecord:
    """The adoption under way. A tombstone when the group is adopted, or left where it is."""

    value: AdoptionState | None

    @property
    def key(self) -> Hashable:
        return "group_adoption"


@value()
class ReleaseState:
    """A group that goes back to the other coordinator, or has gone back: then it has neither
    members nor a guard, and stays there until an operator wants it here again."""

    group: ClassicGroupValue | None = None
    """The group as it was served here last, while its members may still hold partitions. Of a
    consumer group, native members have no protocols, and who held nothing has no assignment."""
    guard_id: str | None = None
    """The member id under which this coordinator still keeps its place at the other one, after all
    members have given up what they held."""
    is_native_due: bool = False
    """Whether native members come back then. One of them has to be the first at the other
    coordinator."""

    @property
    def is_under_way(self) -> bool:
        """Whether the other coordinator does not serve the group alone yet."""
        return self.group is not None or self.guard_id is not None


@value()
class ReleaseRecord:
    """The release of the group. A tombstone when the group may be served here again."""

    value: ReleaseState | None

    @property
    def key(self) -> Hashable:
        return "group_release"


@value()
class ServedBySetting:
    """Whether a setting alone, and no operator, has this coordinator serve the group. A tombstone
    if not: then the group stays here, also while it is empty."""

    is_so: bool

    @property
    def key(self) -> Hashable:
        return "served_by_setting"


@value()
class GroupEpoch:
    """The consumer group's epoch and the hash of the topics it was bumped for."""

    epoch: int | None
    metadata_hash: int = 0
    cause: EpochCause

    @property
    def key(self) -> Hashable:
        return "group_epoch"


@value()
class ClassicMetadata:
    """The classic part of a member of a consumer group that joined by JoinGroup."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def is_eager(self) -> bool:
        """Whether the client gives up all its partitions in order to rejoin. It does if one of its
        assignors needs that; assignors that are not known count as such."""
        return any(name != COOPERATIVE_STICKY for name, _metadata in self.protocols)


@value()
class ClientAssignor:
    """An assignor that a native member runs itself, with its metadata for that assignor and the
    versions of metadata that it can handle. `reason` is the assignor's own."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int = 0
    version: int
    metadata: bytes = b""


@value()
class AssignmentMetadata:
    """What a client-side assignor says to one member along with its partitions."""

    version: int
    metadata: bytes


class Subscription(NamedTuple):
    """A subscription: the union of names and regular expression. `topic_names` is sorted."""

    topic_names: tuple[str, ...]
    topic_regex: str


@value()
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
    client_assignors: tuple[ClientAssignor, ...] = ()
    """Preferred first."""
    classic: ClassicMetadata | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @property
    def is_eager(self) -> bool:
        """Whether the member is a classic one that gives up everything when it rejoins."""
        return self.classic is not None and self.classic.is_eager

    @property
    def subscription(self) -> Subscription:
        return Subscription(self.topic_names, self.topic_regex)


@value()
class MemberMetadata:
    """One member of a consumer group; `cause` says why a tombstone was written."""

    member_id: str
    value: Member | None
    cause: RemovalCause | None = None

    @property
    def key(self) -> Hashable:
        return ("member_metadata", self.member_id)


@value()
class TargetAssignmentMetadata:
    """The epoch of the target assignment. `timestamp_ms` 0: the next one is not delayed."""

    epoch: int | None
    timestamp_ms: int = 0
    assignor: str | None = None

    @property
    def key(self) -> Hashable:
        return "target_assignment_metadata"


@value()
class TargetAssignmentMember:
    """The partitions that the assignor wants one member to have."""

    member_id: str
    partitions: frozenset[Partition] | None
    metadata: AssignmentMetadata | None = None

    @property
    def key(self) -> Hashable:
        return ("target_assignment_member", self.member_id)


@value()
class Assignment:
    """The partitions that a member holds, with the assignment epoch of each.

    `assigned` partitions are granted. `pending_revocation` partitions must be given up, and still
    count as held (KIP-848, "Reconciliation").
    """

    member_epoch: int
    previous_epoch: int
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Partition, int] = field(default_factory=dict)
    pending_revocation: Mapping[Partition, int] = field(default_factory=dict)

    @property
    def held_partitions(self) -> Mapping[Partition, int]:
        """The partitions that no other member may be granted."""
        return {**self.assigned, **self.pending_revocation}

    def covers(self, epoch: int, partitions: Iterable[Partition] | None) -> bool:
        """Whether the member may commit or fetch these partitions with this epoch (rule 3.15);
        None: all that there are.

        An older epoch suffices for partitions that the member has held since then (KIP-1251).
        """
        if epoch == self.member_epoch:
            return True
        if epoch > self.member_epoch or partitions is None:
            return False
        held_since = self.held_partitions
        return all(p in held_since and epoch >= held_since[p] for p in partitions)


@value()
class CurrentAssignment:
    """The current assignment of one member of a consumer group."""

    member_id: str
    value: Assignment | None

    @property
    def key(self) -> Hashable:
        return ("current_assignment", self.member_id)


@value()
class GroupConfigs:
    """The group's config overrides, by Kafka's names. They are independent of the group: only
    another such record changes them. Names that are no longer known are kept and have no effect."""

    overrides: Mapping[str, int]

    @property
    def key(self) -> Hashable:
        return "group_configs"


@value()
class ResolvedRegex:
    """The topics that a regular expression matched. `version` is that of the cluster's topic names
    (`Topics.names_version`), `timestamp_ms` the time when the resolution started."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@value()
class RegularExpression:
    """A subscribed regular expression and its resolution."""

    regex: str
    value: ResolvedRegex | None

    @property
    def key(self) -> Hashable:
        return ("regular_expression", self.regex)


DurableRecord = (
    GroupConfigs
    | AdoptionRecord
    | ReleaseRecord
    | ServedBySetting
    | ClassicGroupMetadata
    | ClassicMemberRemoval
    | ClassicGenerationBegun
    | GroupEpoch
    | MemberMetadata
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentAssignment
    | RegularExpression
)


def is_tombstone(record: DurableRecord) -> bool:
    """Whether a record deletes its key."""
    match record:
        case GroupEpoch(epoch=None) | TargetAssignmentMetadata(epoch=None):
            return True
        case TargetAssignmentMember(partitions=None):
            return True
        case ClassicGroupMetadata(value=None) | MemberMetadata(value=None):
            return True
        case CurrentAssignment(value=None) | RegularExpression(value=None):
            return True
        case ClassicMemberRemoval(cause=None) | ClassicGenerationBegun(generation=None):
            return True
        case AdoptionRecord(value=None) | ReleaseRecord(value=None) | ServedBySetting(is_so=False):
            return True
        case GroupConfigs(overrides=overrides):
            return not overrides
        case _:
            return False
