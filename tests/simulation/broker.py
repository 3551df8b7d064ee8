"""A broker that coordinates groups as Apache Kafka does, for what is played in front of it.

No IO, no clock, no chance: `Broker.handle` takes one request of a client and returns all answers
that follow, and `pass_time` those that follow from the time. The groups are those of the shipped
engine, without its deviations from Kafka (`broker_group.py`); a profile says which release answers
(`broker_profiles.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import OffsetCommitReceived, Request
from coordinator.interface.replies import OffsetReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import ClassicPhase, Token
from gateway.hosting.lookup_outcome import LiveMembers, LookupOutcome, NoMembers
from gateway.requests.messages import consumer_heartbeat_event, event, join_event, response
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_codecs.sync_group import SyncGroupRequest
from tests.simulation.broker_group import Answers, BrokerGroup
from tests.simulation.broker_profiles import BrokerProfile

FIRST_DESCRIPTION_WITH_ERROR = 6
"""The first version of DescribeGroups that says of a missing group that it is missing."""

GroupRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
)
API_KEYS: dict[type[Struct], ApiKey] = {
    JoinGroupRequest: ApiKey.JOIN_GROUP,
    SyncGroupRequest: ApiKey.SYNC_GROUP,
    HeartbeatRequest: ApiKey.HEARTBEAT,
    LeaveGroupRequest: ApiKey.LEAVE_GROUP,
    ConsumerGroupHeartbeatRequest: ApiKey.CONSUMER_GROUP_HEARTBEAT,
    OffsetCommitRequest: ApiKey.OFFSET_COMMIT,
    DescribeGroupsRequest: ApiKey.DESCRIBE_GROUPS,
}


class Sender(NamedTuple):
    """The client that sends a request."""

    client_id: str
    host: str = "127.0.0.1"


class Answer(NamedTuple):
    """The answer to a request, perhaps to one that was parked."""

    request_id: int
    message: Struct


@dataclass(slots=True, eq=False)
class Broker:
    """The coordinator of all groups that it receives requests for."""

    profile: BrokerProfile
    topics: Topics
    config: GroupConfig = field(default_factory=GroupConfig)
    """Its settings, but for those in the profile."""
    groups: dict[str, BrokerGroup] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """The committed offsets by group, topic and partition."""
    waiting: dict[Token, int] = field(default_factory=dict)
    """Requests without an answer, with their versions."""

    def group(self, group_id: str) -> BrokerGroup:
        """The group, which need not exist in the sense of Kafka."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = BrokerGroup(group_id, self.profile, self.config)
        return group

    def handle(
        self,
        message: Struct,
        sender: Sender,
        now_ms: int,
        *,
        request_id: int,
        version: int | None = None,
    ) -> list[Answer]:
        """Handle a request, by default of the newest version that clients use here. Return its
        answer, unless it is parked, and those to requests that it has released. `request_id`: a
        number of its own, greater than that of earlier requests; generated ids contain it.
        """
        version = self.profile.versions[API_KEYS[type(message)]] if version is None else version
        match message:
            case DescribeGroupsRequest(groups=group_ids):
                described = tuple(self.describe(group_id, version) for group_id in group_ids)
                return [Answer(request_id, DescribeGroupsResponse(groups=described))]
            case OffsetCommitRequest():
                return [Answer(request_id, self._commit(message, now_ms, request_id, version))]
            case _:
                assert isinstance(message, GroupRequest)
                self.waiting[request_id] = version
                read = read_request(message, sender, request_id, version)
                group = self.group(message.group_id)
                return self._answers(group.handle(read, self.topics, now_ms))

    def pass_time(self, now_ms: int) -> list[Answer]:
        """Meet the deadlines of all groups that are over."""
        return [
            answer
            for group in self.groups.values()
            for answer in self._answers(group.pass_time(self.topics, now_ms))
        ]

    def next_ms(self) -> int | None:
        """When `pass_time` has something to do next."""
        times = (group.next_ms() for group in self.groups.values())
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def move(self, now_ms: int) -> list[Answer]:
        """Have another broker coordinate all groups, which knows what this one has stored."""
        return [
            answer for group in self.groups.values() for answer in self._answers(group.move(now_ms))
        ]

    def check_commit(self, group_id: str, commit: OffsetCommitReceived, now_ms: int) -> OffsetReply:
        """Whether the group accepts a commit under these ids."""
        ((_token, decision),) = self.group(group_id).handle(commit, self.topics, now_ms)
        assert isinstance(decision, OffsetReply)
        return decision

    def describe(self, group_id: str, version: int | None = None) -> DescribedGroup:
        """The group as DescribeGroups shows it."""
        version = self.profile.versions[ApiKey.DESCRIBE_GROUPS] if version is None else version
        group = self.group(group_id).state
        if not isinstance(group, ClassicGroup):
            is_error = version >= FIRST_DESCRIPTION_WITH_ERROR
            error = ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE
            return DescribedGroup(error_code=error, group_id=group_id, group_state="Dead")
        shows_assignments = self.profile.shows_assignments_in_rounds
        return describe_classic(group_id, group, shows_assignments=shows_assignments)

    def look(self, group_id: str) -> LookupOutcome:
        """Who is in the group, as a look of the gateway finds it."""
        group = self.group(group_id).state
        takes_natives = self.profile.has_native_members
        return find_occupants(group, lambda: self.describe(group_id), takes_natives=takes_natives)

    def _commit(
        self, message: OffsetCommitRequest, now_ms: int, request_id: int, version: int
    ) -> OffsetCommitResponse:
        offsets = {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in message.topics
            for partition in topic.partitions
        }
        names = frozenset(topic.name for topic in message.topics)
        commit = OffsetCommitReceived(
            token=request_id,
            version=version,
            member_id=message.member_id,
            instance_id=message.group_instance_id,
            epoch=message.generation_id_or_member_epoch,
            partitions=self.topics.partitions((name, (number,)) for name, number in offsets),
            topic_names=names,
        )
        error = self.check_commit(message.group_id, commit, now_ms).error
        if not error:
            for (name, number), offset in offsets.items():
                self.offsets[message.group_id, name, number] = offset
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetCommitResponsePartition(
                            partition_index=partition.partition_index, error_code=error
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in message.topics
            )
        )

    def _answers(self, replies: Answers) -> list[Answer]:
        answers = []
        for token, reply in replies:
            version = self.waiting.pop(token)
            if reply is not None:
                answers.append(Answer(token, response(reply, version)))
        return answers


def read_request(message: GroupRequest, sender: Sender, request_id: int, version: int) -> Request:
    """The engine's event of a request, as `Broker.handle` takes it."""
    header = RequestHeader(
        api_key=API_KEYS[type(message)],
        api_version=version,
        correlation_id=0,
        client_id=sender.client_id,
    )
    fresh_id = UUID(int=request_id)
    match message:
        case JoinGroupRequest():
            return join_event(request_id, header, message, sender.host, fresh_id)
        case ConsumerGroupHeartbeatRequest():
            return consumer_heartbeat_event(request_id, header, message, sender.host, fresh_id)
        case _:
            return event(request_id, header, message, sender.host)


def describe_classic(
    group_id: str, group: ClassicGroup, *, shows_assignments: bool
) -> DescribedGroup:
    """A classic group as DescribeGroups shows it. `shows_assignments`: also during a round."""
    is_stable = group.phase is ClassicPhase.STABLE
    protocol = group.core.protocol or ""
    return DescribedGroup(
        group_id=group_id,
        group_state=group.phase.value,
        protocol_type=group.core.protocol_type or "",
        protocol_data=protocol if is_stable else "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable or shows_assignments else b"",
            )
            for member in group.members.values()
        ),
    )


def find_occupants(
    group: ClassicGroup | ConsumerGroup | None,
    describe: Callable[[], DescribedGroup],
    *,
    takes_natives: bool,
) -> LookupOutcome:
    """Who is in a group, as a look of the gateway finds it. `takes_natives`: whether the broker
    has the new protocol."""
    if group is None or not group.members:
        return NoMembers(takes_natives)
    if isinstance(group, ClassicGroup):
        return LiveMembers.of(describe())
    members = list(group.members.values())
    return LiveMembers(
        CONSUMER_PROTOCOL_TYPE,
        tuple(member.client_id for member in members),
        native_ids=tuple(
            frozenset({member.member_id, member.instance_id or member.member_id})
            for member in members
            if not member.is_classic
        ),
    )
