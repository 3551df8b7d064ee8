"""The coordinator of a group that moves: our own engine, in the place of a broker's.

The differential test compares the engine's rules with those of a broker. Where brokers differ from
each other, a world says which it has: the settings of the group, and `natives_disturb`.
"""

from dataclasses import dataclass, field
from uuid import UUID

from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    OffsetCommitEnded,
    OffsetCommitReceived,
    Request,
    TimePassed,
)
from coordinator.interface.records import (
    ClassicGroupMetadata,
    ClassicGroupValue,
    MemberMetadata,
    RemovalCause,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    OffsetVerdict,
    Reply,
)
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import (
    ClassicGroupMemberDropped,
    Token,
)
from gateway.hosting.identity import Gateway
from gateway.requests.messages import MemberMessage, event, join_event
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.join_group import JoinGroupRequest
from tests.simulation.broker import describe_classic
from tests.simulation.broker_group import put_newest_join_first
from tests.simulation.explorer.small_cluster import FIRST_GENERATION, GROUP
from tests.simulation.explorer.small_world import LOG_ID
from tests.simulation.messages import VERSION

TIMED_OUT = (
    RemovalCause.REVOCATION_TIMED_OUT,
    RemovalCause.JOIN_TIMED_OUT,
    RemovalCause.SYNC_TIMED_OUT,
)
"""Why a coordinator may remove a member that sends heartbeats."""
GATEWAY = "groupferry"


def the_gateway() -> Gateway:
    """The gateway of a world."""
    return Gateway(log_id=LOG_ID, run_id=1)


def is_anchor(member_id: str) -> bool:
    """Whether a member is the gateway's anchor."""
    return member_id.startswith(f"{the_gateway().guise.instance_id}-")


@dataclass(slots=True, eq=False)
class Upstream:
    """One group, its members, and its offsets."""

    topics: Topics
    config: GroupConfig
    natives_disturb: bool
    """Whether a native consumer that is refused has parked JoinGroups answered, as in Kafka 4."""
    elects_newest: bool
    """Which of several members becomes the leader when the leader has gone: the one that joined
    last. In Kafka that is up to a hash map."""
    offsets: list[int]
    takes_natives: bool = True
    """Whether it has the new protocol."""
    engine: GroupEngine = field(init=False)
    replies: list[tuple[Token, Reply]] = field(default_factory=list)
    """Answers to requests, also to those that were parked. The world takes them out."""
    timed_out: list[str] = field(default_factory=list)
    """Members that were removed although they may have sent heartbeats."""

    def __post_init__(self) -> None:
        self.engine = GroupEngine(GROUP, self.config)
        empty = ClassicGroupValue(
            protocol_type=None, generation=FIRST_GENERATION, protocol=None, leader=None
        )
        self.engine.load([ClassicGroupMetadata(value=empty)], now_ms=0)

    @property
    def generation(self) -> int:
        """The generation or the epoch of the group."""
        group = self.engine.state.group
        if group is None:
            return FIRST_GENERATION
        return group.core.generation if isinstance(group, ClassicGroup) else group.epoch

    @property
    def is_anchored(self) -> bool:
        """Whether only an anchor is in the group."""
        group = self.engine.state.group
        members = group.members if isinstance(group, ClassicGroup) else ()
        return bool(members) and all(map(is_anchor, members))

    def tell(self, event: Event, now_ms: int) -> None:
        """Handle an event."""
        if isinstance(event, ConsumerHeartbeatReceived) and not self.takes_natives:
            refused = ConsumerHeartbeatReply(error=ErrorCode.UNSUPPORTED_VERSION)
            self.replies.append((event.token, refused))
            return
        if self.elects_newest:
            put_newest_join_first(self.engine)
        step = self.engine.handle(event, now_ms=now_ms, topics=self.topics)
        for record in step.records:
            match record:
                case ClassicGroupMemberDropped(member_id, cause) if cause in TIMED_OUT:
                    self.timed_out.append(member_id)
                case MemberMetadata(value=None, cause=cause) if cause in TIMED_OUT:
                    self.timed_out.append(record.member_id)
                case _:
                    pass
            self.engine.apply(record)
        self.replies += step.replies
        if self.natives_disturb and isinstance(event, ConsumerHeartbeatReceived):
            self._disturb(event.token)

    def _disturb(self, native: Token) -> None:
        """Parked JoinGroups are answered although the native consumer is refused."""
        group = self.engine.state.group
        if not (isinstance(group, ClassicGroup) and group.joins):
            return
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        self.replies = [each for each in self.replies if each[0] != native]
        self.replies.append((native, ConsumerHeartbeatReply(error=error)))
        for member_id, parked in group.joins.items():
            refused = JoinGroupReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member_id)
            self.replies.append((parked.token, refused))

    def pass_time(self, now_ms: int) -> None:
        """Meet the deadlines that are over."""
        at_ms = self.engine.next_deadline_ms()
        if at_ms is not None and at_ms <= now_ms:
            self.tell(TimePassed(), now_ms)

    def read(self, token: Token, message: Struct) -> Request:
        """A request of the gateway."""
        assert isinstance(message, MemberMessage)
        header = RequestHeader(
            api_key=ApiKey.JOIN_GROUP, api_version=VERSION, correlation_id=0, client_id=GATEWAY
        )
        if isinstance(message, JoinGroupRequest):
            return join_event(token, header, message, "127.0.0.1", UUID(int=token))
        return event(token, header, message, "127.0.0.1")

    def commit(self, commit: OffsetCommitReceived, offsets: dict[int, int], now_ms: int) -> int:
        """Store the offsets if the group accepts the commit; the error code."""
        self.tell(commit, now_ms)
        verdict = next(reply for token, reply in self.replies if token == commit.token)
        self.replies = [each for each in self.replies if each[0] != commit.token]
        assert isinstance(verdict, OffsetVerdict)
        if not verdict.error:
            for number, offset in offsets.items():
                self.offsets[number] = offset
            self.tell(OffsetCommitEnded(commit=commit.token), now_ms)
        return verdict.error

    def describe(self) -> DescribedGroup:
        """As DescribeGroups does."""
        group = self.engine.state.group
        if not isinstance(group, ClassicGroup):
            return DescribedGroup(group_id=GROUP, group_state="Dead")
        return describe_classic(GROUP, group, shows_assignments=False)
