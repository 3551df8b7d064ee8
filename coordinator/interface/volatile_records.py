"""The volatile records: changes of state that a restart forgets. `apply` handles them like others.

They cover parked requests, unused ids that were handed out, deadlines, the phase of a classic join,
commits in flight, regular expressions being resolved and targets being computed elsewhere. The
state log never contains them.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from coordinator.interface.records import Assignment, ClassicGroupMember, Member, RemovalCause
from coordinator.interface.topics import Partition
from coordinator.interface.value import value

Token = int
"""Identifies a request until its reply. The driver creates it."""

NEVER_CHECKED = -1
"""No version of the topic image."""


class DeadlineKind(StrEnum):
    """The kinds of deadlines: first those of a member (or of a pending id, or of one that left),
    then of a commit, then of the group."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"
    REVOCATION = "revocation"
    GRACE = "grace"
    PENDING_ID = "pending_id"
    NEW_MEMBER_JOIN = "new_member_join"
    LOST_COMMIT = "lost_commit"
    INITIAL_REBALANCE_DELAY = "initial_rebalance_delay"
    JOIN_PHASE = "join_phase"
    SYNC_PHASE = "sync_phase"
    TARGET_DUE = "target_due"


class DeadlineKey(NamedTuple):
    """Identifies a deadline. `owner` is a member id, a commit token, or empty for the group."""

    kind: DeadlineKind
    owner: str = ""


@value(kw_only=False)
class DeadlineSet:
    """The deadline was set to `at_ms`, in wall-clock milliseconds."""

    key: DeadlineKey
    at_ms: int


@value(kw_only=False)
class DeadlineCleared:
    """The deadline was stopped."""

    key: DeadlineKey


class ClassicPhase(StrEnum):
    """The states of a classic group, as Kafka names them in its views (rule 2.1)."""

    EMPTY = "Empty"
    """No members; offsets may exist."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The join phase: JoinGroups are parked."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Joins are answered, and the leader's SyncGroup is awaited."""
    STABLE = "Stable"
    """The assignment is distributed."""


@value()
class InitialDelay:
    """The first rebalance waits for more members (rule 2.5)."""

    budget_left_ms: int
    member_joined: bool = False


@value()
class ClassicCore:
    """The scalars of a classic group."""

    phase: ClassicPhase = ClassicPhase.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    initial_delay: InitialDelay | None = None
    unwatched_hash: int | None = None
    """See `ClassicGroupValue.unwatched_hash`."""
    topics: frozenset[str] | None = None
    """The topics subscribed when this generation began; None if unknown."""
    topics_hash: int | None = None
    """The metadata hash of `topics` at that time."""
    topics_checked: int = NEVER_CHECKED
    """The version of the topic image that `unwatched_hash` was last compared with."""
    older_epochs: Mapping[str, int] = field(default_factory=dict)
    """See `ClassicGroupValue.older_epochs`. Empty once the first rebalance completes. Until then it
    may have members that left, because thousands may leave at once."""
    held_at_downgrade: Mapping[str, Assignment] | None = None
    """What each member held at the downgrade, until the rebalance that follows completes."""
    has_begun: bool = False
    """Whether a `ClassicGenerationBegun` is stored."""
    told_to_rejoin: frozenset[str] = frozenset()
    """Temporary owners (deviation D85), until they have got what they are assigned for a time."""

    def without_older_epoch(self, member_id: str) -> "ClassicCore":
        """A copy in which the member knows the generation."""
        others = {id_: epoch for id_, epoch in self.older_epochs.items() if id_ != member_id}
        return replace(self, older_epochs=others)


@value(kw_only=False)
class ClassicCoreMoved:
    """The scalars of the classic group changed."""

    core: ClassicCore


@value(kw_only=False)
class ClassicGroupMemberPut:
    """A member joined a classic group, or changed."""

    member: ClassicGroupMember


@value(kw_only=False)
class ClassicGroupMemberDropped:
    """A member was removed from the classic group."""

    member_id: str
    cause: RemovalCause


@value(kw_only=False)
class PendingIdAdded:
    """An id was handed out with MEMBER_ID_REQUIRED. It blocks the join phase."""

    member_id: str


@value(kw_only=False)
class PendingIdDropped:
    """A pending id was used, given back, or timed out."""

    member_id: str


@value()
class ParkedJoin:
    """A JoinGroup that waits for the end of the join phase. A new member's JoinGroup waits until
    `NEW_MEMBER_JOIN` at the latest."""

    token: Token
    is_new: bool


@value(kw_only=False)
class JoinParked:
    """A JoinGroup was parked."""

    member_id: str
    join: ParkedJoin


@value(kw_only=False)
class JoinReleased:
    """A parked JoinGroup was answered."""

    member_id: str


@value(kw_only=False)
class SyncParked:
    """A SyncGroup was parked until the leader sends its own."""

    member_id: str
    token: Token


@value(kw_only=False)
class SyncReleased:
    """A parked SyncGroup was answered."""

    member_id: str


@value(kw_only=False)
class SyncsExpected:
    """The set of members that have yet to send a SyncGroup, set when a generation begins or
    ends."""

    member_ids: tuple[str, ...]


@value(kw_only=False)
class SyncReceived:
    """A member has sent its SyncGroup in this generation."""

    member_id: str


class MemberPhase(StrEnum):
    """The rejoin phase of a classic member of a consumer group (rules 5.6, 5.7)."""

    PREPARE_REBALANCE = "PrepareRebalance"
    """The member has to rejoin; its join timer runs."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The member has joined; its sync timer runs."""
    STABLE = "Stable"
    """Neither timer runs."""


@value(kw_only=False)
class MemberPhaseMoved:
    """A classic member of a consumer group entered a phase."""

    member_id: str
    phase: MemberPhase


@value()
class Repetition:
    """Every answer repeats a native member's assignment until the member acknowledges it.

    After a load the engine does not know whether the member has received its assignment. If the
    member has nothing to acknowledge, the repetition then ends at `until_ms`, in wall-clock
    milliseconds.

    `must_state_owned`: the member may already own exactly this assignment, and would acknowledge
    nothing. The engine refuses its heartbeats until it states what it owns (deviation D67).
    """

    until_ms: int | None = None
    must_state_owned: bool = False


@value(kw_only=False)
class RepetitionMoved:
    """The repetition of a member's assignment starts, or ends (None)."""

    member_id: str
    repetition: Repetition | None


@value()
class Grant:
    """The latest answer that listed the partitions of a native member (deviation D90)."""

    connection: int
    """The connection of the client on which it was sent; a later one has a greater number."""
    newest_connection: int
    """The newest connection of all clients when the member's request arrived."""
    member_epoch: int
    is_doubted: bool = False
    """Whether the client has stated since what it owns, and perhaps without having heard of the
    answers before this one."""


UNKNOWN_CONNECTION = -1
"""The connection of an answer that another process has sent."""


@value(kw_only=False)
class GrantMoved:
    """An answer lists a native member's partitions."""

    member_id: str
    grant: Grant


@value(kw_only=False)
class MemberSlot:
    """The slot of a member that left: what it had, for a replacement (deviation D77). After a load
    the member is no longer known, and no replacement may take its slot."""

    member: Member | ClassicGroupMember | None
    """A member of the group's kind."""
    left_ms: int = 0
    reassigned: frozenset[Partition] = frozenset()
    """The member's target, if another one has it until the replacement comes (deviation D85)."""


@value(kw_only=False)
class MemberSlotMoved:
    """The slot of the member that had this id is kept, or ends (None)."""

    member_id: str
    slot: MemberSlot | None


@value(kw_only=False)
class MemberReturned:
    """A slot was taken at `at_ms`, in wall-clock milliseconds, `away_ms` after its member left."""

    at_ms: int
    away_ms: int


@value(kw_only=False)
class ProtocolChanged:
    """A member came back with the other protocol at `at_ms`, in wall-clock milliseconds: the group
    is being rolled."""

    at_ms: int


@value()
class DynamicMemberLeft:
    """A dynamic member of a consumer group left at `at_ms`, in wall-clock milliseconds."""

    client_id: str
    client_host: str
    is_classic: bool
    at_ms: int


@value(kw_only=False)
class MemberDeparted:
    """A member left its slot, or its instance to another, in the present assignment epoch."""

    member_id: str


@value(kw_only=False)
class TopicsChecked:
    """The metadata hash was compared with this version of the topic image, or has to be compared
    with any (NEVER_CHECKED)."""

    version: int


@value()
class CommitInFlight:
    """A commit that the cluster has not answered yet.

    `held` has those of its `partitions` that the committer held when it committed. They count as
    held by the committer until the answer arrives. `member_id` is empty for a commit without a
    member. If the answer was lost, the cluster may still store the commit until `LOST_COMMIT` is
    due. If the member has joined again since, another process may have its id.
    """

    member_id: str
    partitions: frozenset[Partition]
    held: frozenset[Partition]
    answer_lost: bool = False
    has_rejoined: bool = False


@value(kw_only=False)
class CommitStarted:
    """The engine accepted a commit, which is now in flight."""

    commit: Token
    in_flight: CommitInFlight


@value(kw_only=False)
class CommitEnded:
    """The cluster answered the commit, or can no longer store it."""

    commit: Token


@value()
class RegexResolution:
    """Regular expressions that the driver is matching against all topic names."""

    regexes: frozenset[str]
    started_ms: int


@value(kw_only=False)
class RegexResolutionMoved:
    """The driver has to match these expressions (one resolution per group at a time); None: it has
    finished or failed."""

    resolution: RegexResolution | None


@value()
class Subscriber:
    """A member as an assignor sees it. `topic_ids` holds only topics that exist."""

    instance_id: str | None
    rack_id: str | None = None
    topic_ids: frozenset[UUID]


@value()
class Computation:
    """A target that an assignor outside the engine computes, and all that it is computed from: the
    group as it was at `epoch`. The fields are those of `GroupSpec`."""

    epoch: int
    assignor: str
    members: Mapping[str, Subscriber]
    partition_counts: Mapping[UUID, int]
    target: Mapping[str, frozenset[Partition]]
    spared: frozenset[str] = frozenset()
    imbalance_percent: int | None = None
    racks: Mapping[UUID, tuple[frozenset[str], ...]] = field(default_factory=dict)
    is_members: bool = False
    """Whether a member of the group computes it, and not a plug-in."""


@value(kw_only=False)
class ComputationStarted:
    """A plug-in or a member has to compute this target (one per group at a time)."""

    computation: Computation


@value(kw_only=False)
class ChosenMember:
    """The member that computes the target, and when that must be done, in wall-clock
    milliseconds."""

    member_id: str
    until_ms: int


@value(kw_only=False)
class MemberChosen:
    """The member is told to compute the target; None: the chosen one has gone or cannot do it."""

    chosen: ChosenMember | None


@value()
class ComputationFailed:
    """The group keeps its target. The next computation starts at `retry_at_ms` at the earliest, in
    wall-clock milliseconds."""

    epoch: int
    assignor: str
    reason: str
    retry_at_ms: int
    error: int = 0
    """The code that a client-side assignor gave."""


@value()
class Conversions:
    """How often the group was converted recently."""

    upgraded_ms: int = 0
    """When it became a consumer group last."""
    quick: int = 0
    """How often in a row it became classic again soon afterwards."""
    rests_until_ms: int = 0
    """When the group may become a consumer group again."""


@value(kw_only=False)
class ConversionsMoved:
    """The group was converted."""

    conversions: Conversions


ClassicVolatileRecord = (
    ClassicCoreMoved
    | ClassicGroupMemberPut
    | ClassicGroupMemberDropped
    | PendingIdAdded
    | PendingIdDropped
    | JoinParked
    | JoinReleased
    | SyncParked
    | SyncReleased
    | SyncsExpected
    | SyncReceived
)
VolatileRecord = (
    ClassicVolatileRecord
    | DeadlineSet
    | DeadlineCleared
    | MemberPhaseMoved
    | RepetitionMoved
    | GrantMoved
    | TopicsChecked
    | CommitStarted
    | CommitEnded
    | RegexResolutionMoved
    | ComputationStarted
    | ComputationFailed
    | MemberChosen
    | ConversionsMoved
    | MemberSlotMoved
    | MemberReturned
    | ProtocolChanged
    | DynamicMemberLeft
    | MemberDeparted
)
