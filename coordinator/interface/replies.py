"""The engine's replies, independent of versions. The gateway turns them into messages."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal
from uuid import UUID

from coordinator.interface.records import AssignmentMetadata
from coordinator.interface.topics import Partition
from coordinator.interface.value import value
from kafka_codecs.error_codes import ErrorCode


@value()
class JoinedMember:
    """A member, as the JoinGroup response of a classic leader lists it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@value()
class JoinGroupReply:
    """Answers a JoinGroup. `reason` is for the log, because classic responses carry no message."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@value()
class SyncGroupReply:
    """Answers a SyncGroup with the embedded assignment."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    @classmethod
    def refusal(cls, code: ErrorCode, reason: str = "") -> "SyncGroupReply":
        """While the coordinator loads, the member is asked to rejoin, as in Kafka. The generation
        may be lost, and other errors are fatal to some clients."""
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return cls(error=code, reason=reason)


@value()
class HeartbeatReply:
    """Answers a classic Heartbeat."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""

    @classmethod
    def refusal(cls, code: ErrorCode, reason: str = "") -> "HeartbeatReply":
        """While the coordinator loads, the heartbeat succeeds (rule 2.7). The loaded group restarts
        the session, and the error would be fatal to some clients."""
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return cls()
        return cls(error=code, reason=reason)


@value()
class LeftMember:
    """One entry of a LeaveGroup answer; repeats the ids as they were requested."""

    member_id: str
    instance_id: str | None
    error: ErrorCode = ErrorCode.NONE


@value()
class LeaveGroupReply:
    """Answers a LeaveGroup, one code per entry."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""
    members: tuple[LeftMember, ...] = ()


@value()
class ConsumerHeartbeatReply:
    """Answers a ConsumerGroupHeartbeat. `assignment` None means unchanged. The last two fields are
    about the assignment, and mean nothing without it: what a client-side assignor says to the
    member, and the error of the assignor's last attempt."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    should_compute: bool = False
    """Whether the member is to compute the group's target."""
    assignment: frozenset[Partition] | None = None
    assignment_metadata: AssignmentMetadata | None = None
    assignment_error: int = 0


@value()
class PreparedMember:
    """A member as a client-side assignor sees it. `topic_ids` has only topics that exist; `version`
    is -1 if `metadata` is the user data of a classic member's subscription."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[UUID]
    reason: int
    version: int
    metadata: bytes
    target: frozenset[Partition]


@value()
class PrepareAssignmentReply:
    """Answers a ConsumerGroupPrepareAssignment: what the member computes the target from."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""
    group_epoch: int = 0
    assignor: str = ""
    members: tuple[PreparedMember, ...] = ()
    topics: tuple[tuple[UUID, str, int], ...] = ()
    """(id, name, partition count) of each subscribed topic."""


@value()
class InstallAssignmentReply:
    """Answers a ConsumerGroupInstallAssignment."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""


@value()
class OffsetReply:
    """Whether the gateway may store or fetch these offsets in the cluster. Offsets of topics that
    are `gone` get UNKNOWN_TOPIC_OR_PARTITION."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""
    gone: frozenset[str] = frozenset()


@value()
class OffsetDeleteReply:
    """Offsets of `subscribed` topics stay (GROUP_SUBSCRIBED_TO_TOPIC); the others may go."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""
    subscribed: frozenset[str] = frozenset()
    group_exists: bool = True


@value()
class DeleteGroupReply:
    """Whether the group's state is gone, so that its offsets may be deleted."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""


@value()
class ClaimReply:
    """Whether the group is served here from its next member on."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""


@value()
class ConfigsReply:
    """Whether the requested configs are now in force, or valid."""

    error: ErrorCode = ErrorCode.NONE
    reason: str = ""


@value()
class ConfigView:
    """One config of a group: its override, or else the broker's setting or Kafka's default."""

    name: str
    override: int | None
    broker_name: str
    broker_value: int
    default: int
    documentation: str


@value()
class MemberView:
    """One member as an admin tool sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    is_classic: bool
    rack_id: str | None = None
    member_epoch: int = 0
    phase: str = ""
    """The rejoin phase of a classic member of a consumer group."""
    topic_names: tuple[str, ...] = ()
    topic_regex: str = ""
    assignment: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    target: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    metadata: bytes = b""
    assignment_bytes: bytes = b""


@value()
class GroupView:
    """A group as an admin tool sees it; a missing one has no type."""

    group_id: str
    group_type: Literal["classic", "consumer"] | None
    state: str
    protocol_type: str = ""
    protocol: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[MemberView, ...] = ()


Reply = (
    JoinGroupReply
    | SyncGroupReply
    | HeartbeatReply
    | LeaveGroupReply
    | ConsumerHeartbeatReply
    | PrepareAssignmentReply
    | InstallAssignmentReply
    | OffsetReply
    | OffsetDeleteReply
    | DeleteGroupReply
    | ClaimReply
    | ConfigsReply
)
