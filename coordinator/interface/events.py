"""The events of a group: requests, answers from the cluster, and passing time.

Fields are those of Kafka's messages, independent of their version: a field that a version lacks is
None or the default. `token` identifies the request in its reply. `refuse` makes the reply to a
refused request.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum, auto
from uuid import UUID

from coordinator.interface.errors import GroupError
from coordinator.interface.records import (
    AdoptionState,
    AssignmentMetadata,
    ClientAssignor,
    Protocols,
    ReleaseState,
    RemovalCause,
)
from coordinator.interface.replies import (
    ClaimReply,
    ConfigsReply,
    ConsumerHeartbeatReply,
    DeleteGroupReply,
    HeartbeatReply,
    InstallAssignmentReply,
    JoinGroupReply,
    LeaveGroupReply,
    OffsetDeleteReply,
    OffsetReply,
    PrepareAssignmentReply,
    SyncGroupReply,
)
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Partition
from coordinator.interface.value import value
from coordinator.interface.volatile_records import Token

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""Member epochs of a heartbeat that mean a request. A member that left with -2 keeps its place, and
-2 as its epoch, until it returns."""

# From JoinGroup v4 on, clients repeat the request with the id that they were given (KIP-394).
FIRST_JOIN_VERSION_WITH_MEMBER_ID_REQUIRED = 4
FIRST_COMMIT_WITH_MEMBER_EPOCHS = 9
FIRST_TXN_COMMIT_WITH_MEMBER_EPOCHS = 6
"""The first versions whose clients understand GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""


@value()
class JoinGroupReceived:
    """A JoinGroup. `fresh_id` is random; the engine uses it if it has to name a new member."""

    token: Token
    version: int
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    fresh_id: UUID
    waited_ms: int = 0
    """How long the request has waited to be decided. The initial delay begins with its arrival."""

    @property
    def asks_for_id(self) -> bool:
        """Whether the answer can only hand out a member id, with which the client repeats the
        request (KIP-394)."""
        return (
            self.version >= FIRST_JOIN_VERSION_WITH_MEMBER_ID_REQUIRED
            and not self.member_id
            and self.instance_id is None
        )

    def refuse(self, error: GroupError) -> JoinGroupReply:
        return JoinGroupReply(error=error.code, reason=error.reason, member_id=error.member_id)


@value()
class SyncGroupReceived:
    """A SyncGroup. The engine uses `assignments` only if the leader of a classic group sends it."""

    token: Token
    version: int
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()

    def refuse(self, error: GroupError) -> SyncGroupReply:
        return SyncGroupReply.refusal(error.code, error.reason)


@value()
class HeartbeatReceived:
    """A classic Heartbeat."""

    token: Token
    member_id: str
    instance_id: str | None
    generation: int

    def refuse(self, error: GroupError) -> HeartbeatReply:
        return HeartbeatReply.refusal(error.code, error.reason)


REASONS_TO_STAY_AWAY = (
    "consumer poll timeout has expired.",
    "the consumer unsubscribed from all topics",
)
"""What Java's consumer says when its process continues without the group."""


@value()
class Leaver:
    """One entry of a LeaveGroup. An admin's removal has an instance id and no member id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None
    """What the client says, from v5 on (KIP-800)."""

    @property
    def comes_back(self) -> bool:
        """Whether the client may be about to restart, as far as its reason shows."""
        return self.reason not in REASONS_TO_STAY_AWAY


@value()
class LeaveGroupReceived:
    """A LeaveGroup; versions before 3 name one member."""

    token: Token
    members: tuple[Leaver, ...]

    def refuse(self, error: GroupError) -> LeaveGroupReply:
        return LeaveGroupReply(error=error.code, reason=error.reason)


@value()
class ConsumerHeartbeatReceived:
    """A ConsumerGroupHeartbeat. None (or -1 for the timeout) means unchanged."""

    token: Token
    version: int
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    client_assignors: tuple[ClientAssignor, ...] | None = None
    """Preferred first; an empty list is that of a member that runs none."""
    owned: frozenset[Partition] | None = None
    lists_owned_topics: bool = False
    """True if the list of owned partitions has an entry, even one without partitions."""
    fresh_id: UUID
    disconnected: frozenset[str] = frozenset()
    """The members whose clients were the sender's own user, and have closed their connections."""
    connection: int = 0
    """The client's connection; a later one has a greater number."""
    newest_connection: int = 0
    """The newest connection of all clients when this request arrived."""
    follows_answers: bool = True
    """Whether all earlier answers on that connection had been sent before this request arrived."""
    calls_within_ms: int = 0
    """How long the latest calls on that connection took at most."""
    answers_within_ms: int = 0
    """How long the latest heartbeats of the group took to be answered, at the 99th percentile or
    more; 0 if they were too quick to lengthen an interval."""

    @property
    def is_full(self) -> bool:
        """Whether every field is set, as after joining and after any error (rule 3.9)."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.topic_names is not None or self.topic_regex is not None)
            and self.owned is not None
        )

    def refuse(self, error: GroupError) -> ConsumerHeartbeatReply:
        return ConsumerHeartbeatReply(error=error.code, reason=error.reason)


@value()
class PrepareAssignmentReceived:
    """A member that was told to compute the target asks what to compute it from."""

    token: Token
    member_id: str
    member_epoch: int

    def refuse(self, error: GroupError) -> PrepareAssignmentReply:
        return PrepareAssignmentReply(error=error.code, reason=error.reason)


@value()
class InstallAssignmentReceived:
    """The target that a member computed. `group_epoch` is that of the answer from which it was
    computed; `error` is the assignor's own, and 0 means success."""

    token: Token
    member_id: str
    member_epoch: int
    group_epoch: int
    error: int = 0
    target: Mapping[str, frozenset[Partition]] = field(default_factory=dict)
    metadata: Mapping[str, AssignmentMetadata] = field(default_factory=dict)
    flaw: str = ""
    """What these mappings cannot express, for people: a member or a partition was named twice."""

    def refuse(self, error: GroupError) -> InstallAssignmentReply:
        return InstallAssignmentReply(error=error.code, reason=error.reason)


@value()
class OffsetCommitReceived:
    """A commit to check. If it is accepted, `OffsetCommitEnded` with its token must follow."""

    token: Token
    version: int
    member_id: str
    instance_id: str | None
    epoch: int
    partitions: frozenset[Partition]
    """The partitions, as far as the cluster knows their topics."""
    topic_names: frozenset[str] = frozenset()
    """The names of all topics in the commit."""
    is_transactional: bool = False

    @property
    def knows_member_epochs(self) -> bool:
        """Whether the client understands the errors that KIP-848 brought."""
        if self.is_transactional:
            return self.version >= FIRST_TXN_COMMIT_WITH_MEMBER_EPOCHS
        return self.version >= FIRST_COMMIT_WITH_MEMBER_EPOCHS

    def refuse(self, error: GroupError) -> OffsetReply:
        return OffsetReply(error=error.code, reason=error.reason)


@value()
class OffsetCommitEnded:
    """The cluster answered an accepted commit, or the answer was lost."""

    commit: Token
    answer_lost: bool = False


@value()
class OffsetFetchReceived:
    """A fetch to check; clients before OffsetFetch v9 name no member. `partitions` None: all."""

    token: Token
    member_id: str | None
    epoch: int
    partitions: frozenset[Partition] | None

    def refuse(self, error: GroupError) -> OffsetReply:
        return OffsetReply(error=error.code, reason=error.reason)


@value()
class OffsetDeleteReceived:
    """An admin's request to delete offsets of some topics."""

    token: Token
    topic_names: tuple[str, ...]

    def refuse(self, error: GroupError) -> OffsetDeleteReply:
        return OffsetDeleteReply(error=error.code, reason=error.reason)


@value()
class DeleteGroupReceived:
    """An admin's request to delete the group."""

    token: Token

    def refuse(self, error: GroupError) -> DeleteGroupReply:
        return DeleteGroupReply(error=error.code, reason=error.reason)


@value()
class ClaimReceived:
    """An operator wants the group to be served here, whether or not it exists or has members."""

    token: Token

    def refuse(self, error: GroupError) -> ClaimReply:
        return ClaimReply(error=error.code, reason=error.reason)


class ConfigOperation(Enum):
    """The operation on a config. The last two are for lists."""

    SET = auto()
    DELETE = auto()
    APPEND = auto()
    SUBTRACT = auto()


@value()
class ConfigChange:
    """One key of an IncrementalAlterConfigs."""

    name: str
    operation: ConfigOperation
    value: str | None = None


@value()
class ConfigsReceived:
    """An admin's request to change the group's configs, or to validate such a change. `policy` is
    an operator's part."""

    token: Token
    changes: tuple[ConfigChange, ...] = ()
    policy: RollMode | None = None
    native_members: int = 0
    """How many native members the group has in the cluster, if there is a policy."""
    native_away: int = 0
    """How many native members are away for a moment, and count as well, if there is a policy."""
    announces_roll: bool | None = None
    """Whether an operator announces a roll of the group, or its end."""
    validate_only: bool = False

    def refuse(self, error: GroupError) -> ConfigsReply:
        return ConfigsReply(error=error.code, reason=error.reason)


@value()
class RegexesResolved:
    """The result of `Step.resolution`; None if the resolution failed.

    `version` is the `Topics.names_version` of the names that were matched.
    """

    topics: Mapping[str, frozenset[str]] | None
    version: int = 0


@value()
class AssignmentReceived:
    """The result of `Step.computation`: the members whose target changes, or why there is none.

    `epoch` is that of the computation.
    """

    epoch: int
    target: Mapping[str, frozenset[Partition]] = field(default_factory=dict)
    failure: str = ""


@value()
class GroupLost:
    """Another coordinator serves the group now, or may have served it since, so its members here
    must give up their partitions."""

    cause: RemovalCause = RemovalCause.GROUP_TAKEN


@value()
class AdoptionMoved:
    """A step of an adoption has to be durable before the next begins. None: the group stays with
    the other coordinator."""

    adoption: AdoptionState | None


@value()
class AdoptionEnded:
    """The other coordinator's group is held for this one, and its members continue here."""


@value()
class ReleaseBegan:
    """The group is to go back to the other coordinator. This one serves it no longer, unless that
    one does not take a member."""

    takes_natives: bool = True
    """Whether the other coordinator has the new protocol."""
    takes_mixed: bool = True
    """Whether it takes classic members together with native ones."""


@value()
class ReleaseMoved:
    """A step of a release has to be durable before the next begins."""

    release: ReleaseState


@value(kw_only=False)
class LeaverStayed:
    """The client of a member that has left still has its connection, so it is not restarting."""

    member_id: str


@value()
class TimePassed:
    """One or more deadlines may be due."""


Request = (
    JoinGroupReceived
    | SyncGroupReceived
    | HeartbeatReceived
    | LeaveGroupReceived
    | ConsumerHeartbeatReceived
    | PrepareAssignmentReceived
    | InstallAssignmentReceived
    | OffsetCommitReceived
    | OffsetFetchReceived
    | OffsetDeleteReceived
    | DeleteGroupReceived
    | ClaimReceived
    | ConfigsReceived
)
Happening = (
    OffsetCommitEnded
    | RegexesResolved
    | AssignmentReceived
    | GroupLost
    | AdoptionMoved
    | AdoptionEnded
    | ReleaseBegan
    | ReleaseMoved
    | LeaverStayed
    | TimePassed
)
"""Events that are not requests and so cannot be refused."""

Event = Request | Happening
