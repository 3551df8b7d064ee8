"""What can happen to a group: requests that arrived, answers from the cluster, time that passed.

Fields are those of Kafka's messages, without versions' quirks: what a version does not carry is
None or the default. `token` names the request in the answer. Each request knows how a refusal
of it looks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

from coordinator.errors import GroupError
from coordinator.records import Protocols
from coordinator.replies import (
    ConfigsReply,
    ConsumerHeartbeatReply,
    DeleteGroupReply,
    HeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    OffsetDeleteVerdict,
    OffsetVerdict,
    SyncGroupReply,
)
from coordinator.topics import Partition
from coordinator.volatile import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupReceived:
    """`fresh_id` is random and used only if the engine has to name a new member."""

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

    def refused(self, error: GroupError) -> JoinGroupReply:
        return JoinGroupReply(error=error.code, why=error.why, member_id=error.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupReceived:
    """`assignments` counts from the leader of a classic group only."""

    token: Token
    version: int
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()

    def refused(self, error: GroupError) -> SyncGroupReply:
        return SyncGroupReply.refusal(error.code, error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReceived:
    """A classic Heartbeat."""

    token: Token
    member_id: str
    instance_id: str | None
    generation: int

    def refused(self, error: GroupError) -> HeartbeatReply:
        return HeartbeatReply.refusal(error.code, error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """One entry of a LeaveGroup. An empty member id with an instance id: an admin's removal."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupReceived:
    """A LeaveGroup; versions before 3 name one member."""

    token: Token
    members: tuple[Leaver, ...]

    def refused(self, error: GroupError) -> LeaveGroupReply:
        return LeaveGroupReply(error=error.code, why=error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReceived:
    """A ConsumerGroupHeartbeat. None (or -1 for the timeout): unchanged since the last one."""

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
    owned: frozenset[Partition] | None = None
    lists_owned_topics: bool = False
    """True as soon as the list of owned partitions has an entry, even one without partitions."""
    fresh_id: UUID

    @property
    def is_full(self) -> bool:
        """States everything, as a client does after joining and after any error (rule 3.9)."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.topic_names is not None or self.topic_regex is not None)
            and self.owned is not None
        )

    def refused(self, error: GroupError) -> ConsumerHeartbeatReply:
        return ConsumerHeartbeatReply(error=error.code, why=error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitReceived:
    """A commit to check. If it is accepted, `OffsetCommitEnded` with its token must follow."""

    token: Token
    version: int
    member_id: str
    instance_id: str | None
    epoch: int
    partitions: frozenset[Partition]
    """Of the topics that the cluster knows."""
    topic_names: frozenset[str] = frozenset()
    """Of all topics."""
    is_transactional: bool = False

    def refused(self, error: GroupError) -> OffsetVerdict:
        return OffsetVerdict(error=error.code, why=error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitEnded:
    """The cluster answered an accepted commit, or its answer was lost on the way."""

    commit: Token
    answer_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchReceived:
    """A fetch to check; clients before OffsetFetch v9 name no member. `partitions` None: all."""

    token: Token
    member_id: str | None
    epoch: int
    partitions: frozenset[Partition] | None

    def refused(self, error: GroupError) -> OffsetVerdict:
        return OffsetVerdict(error=error.code, why=error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteReceived:
    """An admin's wish to delete offsets of some topics."""

    token: Token
    topic_names: tuple[str, ...]

    def refused(self, error: GroupError) -> OffsetDeleteVerdict:
        return OffsetDeleteVerdict(error=error.code, why=error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupReceived:
    """An admin's wish to delete the group."""

    token: Token

    def refused(self, error: GroupError) -> DeleteGroupReply:
        return DeleteGroupReply(error=error.code, why=error.why)


class ConfigOperation(Enum):
    """What to do with a config; the last two are for lists."""

    SET = auto()
    DELETE = auto()
    APPEND = auto()
    SUBTRACT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One key of an IncrementalAlterConfigs."""

    name: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsReceived:
    """An admin's wish to change the group's configs, or to know whether that would be possible."""

    token: Token
    changes: tuple[ConfigChange, ...]
    validate_only: bool = False

    def refused(self, error: GroupError) -> ConfigsReply:
        return ConfigsReply(error=error.code, why=error.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexesResolved:
    """What regular expressions matched (`Step.resolution`), None if that could not be found out.

    `version` is that of the names they were matched against, see `Topics.names_version`.
    """

    topics: Mapping[str, frozenset[str]] | None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLost:
    """Somebody else serves the group's partitions now, so its members here must give them up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """One or more deadlines may be due."""


Request = (
    JoinGroupReceived
    | SyncGroupReceived
    | HeartbeatReceived
    | LeaveGroupReceived
    | ConsumerHeartbeatReceived
    | OffsetCommitReceived
    | OffsetFetchReceived
    | OffsetDeleteReceived
    | DeleteGroupReceived
    | ConfigsReceived
)
Happening = OffsetCommitEnded | RegexesResolved | GroupLost | TimePassed
"""What nobody asked for and nobody can refuse."""

Event = Request | Happening
