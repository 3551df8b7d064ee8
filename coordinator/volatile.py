"""The volatile records: state that a restart may forget, yet changed only by `apply`.

Parked requests, ids handed out but not used yet, deadlines, the phase of a classic join, commits
on their way to the cluster, regular expressions being resolved. Never logged; replay does not see
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coordinator.records import Assignment, ClassicGroupMember, RemovalCause
from coordinator.topics import Partition

Token = int
"""Names a request that waits for its answer; made by the driver."""


class DeadlineKind(StrEnum):
    """What runs out: first what belongs to a member (or to the id of one to be), then to a commit,
    then to the group."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"
    REVOCATION = "revocation"
    PENDING_ID = "pending_id"
    NEW_MEMBER_JOIN = "new_member_join"
    LOST_COMMIT = "lost_commit"
    INITIAL_REBALANCE_DELAY = "initial_rebalance_delay"
    JOIN_PHASE = "join_phase"
    SYNC_PHASE = "sync_phase"
    TARGET_DUE = "target_due"

    # Every heartbeat looks deadlines up by their keys; an enum's own hash is a call of Python.
    __hash__ = str.__hash__


class DeadlineKey(NamedTuple):
    """One deadline; `owner` is a member id, a commit, or empty for the group's own."""

    kind: DeadlineKind
    owner: str = ""


@dataclass(frozen=True, slots=True)
class DeadlineSet:
    """The deadline of this key is now at `at_ms`, wall-clock milliseconds."""

    key: DeadlineKey
    at_ms: int


@dataclass(frozen=True, slots=True)
class DeadlineCleared:
    """The deadline of this key no longer runs."""

    key: DeadlineKey


class ClassicPhase(StrEnum):
    """The states of a classic group, as Kafka names them in its views (rule 2.1)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialDelay:
    """The first rebalance waits for more members (rule 2.5)."""

    budget_left_ms: int
    member_joined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicCore:
    """The scalars of a classic group."""

    phase: ClassicPhase = ClassicPhase.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    initial_delay: InitialDelay | None = None
    unwatched_hash: int | None = None
    """As in `ClassicGroupValue`."""
    topics: frozenset[str] | None = None
    """What the members subscribed to when this generation began, None if nobody knows."""
    topics_hash: int | None = None
    """The metadata hash of `topics` at that moment."""
    topics_checked: int = -1
    """The version of the topics' image that `unwatched_hash` was compared with."""
    held_at_downgrade: Mapping[str, Assignment] | None = None
    """A consumer group until now, and no rebalance completed since: what each member held. One
    that presents its older epoch is known to lag, not a stranger (deviation D8)."""


@dataclass(frozen=True, slots=True)
class ClassicCoreMoved:
    """The classic group's scalars are now these."""

    core: ClassicCore


@dataclass(frozen=True, slots=True)
class ClassicGroupMemberPut:
    """A member joined a classic group, or changed."""

    member: ClassicGroupMember


@dataclass(frozen=True, slots=True)
class ClassicGroupMemberDropped:
    """A member is no longer in the classic group."""

    member_id: str
    cause: RemovalCause


@dataclass(frozen=True, slots=True)
class PendingIdAdded:
    """An id was handed out with MEMBER_ID_REQUIRED; it holds up the join phase."""

    member_id: str


@dataclass(frozen=True, slots=True)
class PendingIdDropped:
    """That id was used, given back, or timed out."""

    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedJoin:
    """A JoinGroup that is answered when the join phase completes. That of a new member waits at
    most until `NEW_MEMBER_JOIN` is due."""

    token: Token
    is_new: bool


@dataclass(frozen=True, slots=True)
class JoinParked:
    """This member's JoinGroup waits."""

    member_id: str
    join: ParkedJoin


@dataclass(frozen=True, slots=True)
class JoinReleased:
    """This member's JoinGroup is answered."""

    member_id: str


@dataclass(frozen=True, slots=True)
class SyncParked:
    """This member's SyncGroup waits for the leader's."""

    member_id: str
    token: Token


@dataclass(frozen=True, slots=True)
class SyncReleased:
    """This member's SyncGroup is answered."""

    member_id: str


@dataclass(frozen=True, slots=True)
class SyncsExpected:
    """A generation began, or ended: these members are to send a SyncGroup in it."""

    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SyncReceived:
    """This member has sent its SyncGroup in this generation."""

    member_id: str


class MemberPhase(StrEnum):
    """Where a classic member of a consumer group is with its rejoin; see `consumer/phases.py`."""

    PREPARE_REBALANCE = "PrepareRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class MemberPhaseMoved:
    """A classic member of a consumer group is now in this phase."""

    member_id: str
    phase: MemberPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """Every answer tells a native member its assignment until the member acknowledges it. After a
    load nobody knows whether it has: then the repetition ends at `until_ms`, wall-clock
    milliseconds, for a member that has nothing to acknowledge.

    `must_state_owned`: the member may already believe what it is told, and then acknowledges
    nothing. It is refused until it states what it owns (deviation D67)."""

    until_ms: int | None = None
    must_state_owned: bool = False


@dataclass(frozen=True, slots=True)
class RepetitionMoved:
    """The member's assignment is repeated from now on; None: it no longer is."""

    member_id: str
    repetition: Repetition | None


@dataclass(frozen=True, slots=True)
class TopicsChecked:
    """The metadata hash was compared with this version of the topics' image."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInFlight:
    """A commit that the cluster has not answered. Those of its `partitions` that the committer
    held when it sent it, count as held until then. `member_id` is empty if it is nobody's.

    If the answer was lost, the cluster may still store it, until `LOST_COMMIT` is due.
    """

    member_id: str
    partitions: frozenset[Partition]
    held: frozenset[Partition]
    answer_lost: bool = False


@dataclass(frozen=True, slots=True)
class CommitStarted:
    """The engine accepted a commit, which now travels to the cluster."""

    commit: Token
    in_flight: CommitInFlight


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """The cluster answered the commit, or can no longer be about to store it."""

    commit: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexResolution:
    """Regular expressions that are being matched against the names of all topics."""

    regexes: frozenset[str]
    started_ms: int


@dataclass(frozen=True, slots=True)
class RegexResolutionMoved:
    """The driver has to match these, one resolution of a group at a time; None: it has, or could
    not."""

    resolution: RegexResolution | None


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
    | TopicsChecked
    | CommitStarted
    | CommitEnded
    | RegexResolutionMoved
)
