"""Translates Kafka's group messages to the engine's events, and the engine's replies to messages.

Versions matter only where a field changes its meaning.
"""

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID, uuid4

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    InstallAssignmentReply,
    JoinGroupReply,
    LeaveGroupReply,
    PrepareAssignmentReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi
from gateway.requests import assignments
from kafka_codecs import consumer_group_heartbeat
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.consumer_group_install_assignment import ConsumerGroupInstallAssignmentRequest
from kafka_codecs.consumer_group_prepare_assignment import ConsumerGroupPrepareAssignmentRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import (
    FIRST_LEAVE_VERSION_WITH_MEMBERS,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.offset_delete import OffsetDeleteRequest
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest

MemberMessage = (
    HeartbeatRequest
    | ConsumerGroupHeartbeatRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | LeaveGroupRequest
    | ConsumerGroupPrepareAssignmentRequest
    | ConsumerGroupInstallAssignmentRequest
)
"""Requests whose answers the engine decides, frequent ones first. The outcome of a commit is the
cluster's."""
GroupMessage = MemberMessage | OffsetCommitRequest | TxnOffsetCommitRequest | OffsetDeleteRequest
"""Requests about one group."""

_NO_ID = UUID(int=0)
"""A value in place of a fresh id for a member that has one: random numbers cost a system call."""

HOSTS_MAX = 4_096
"""Client hosts whose texts are remembered: every heartbeat asks for one."""

# A JoinGroup before v1 has no rebalance timeout; the session timeout takes its place (rule 1.2).
FIRST_JOIN_VERSION_WITH_REBALANCE_TIMEOUT = 1
# From v7 on a missing protocol name is null instead of empty (KIP-559).
FIRST_JOIN_VERSION_WITH_NULL_PROTOCOL = 7


def join_event(
    token: int,
    header: RequestHeader,
    message: JoinGroupRequest,
    client_host: str,
    fresh_id: UUID,
) -> JoinGroupReceived:
    has_timeout = header.api_version >= FIRST_JOIN_VERSION_WITH_REBALANCE_TIMEOUT
    return JoinGroupReceived(
        token=token,
        version=header.api_version,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=header.client_id or "",
        client_host=shown_host(client_host),
        protocol_type=message.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in message.protocols),
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=(
            message.rebalance_timeout_ms if has_timeout else message.session_timeout_ms
        ),
        fresh_id=fresh_id,
    )


def join_response(reply: JoinGroupReply, version: int) -> JoinGroupResponse:
    no_name = None if version >= FIRST_JOIN_VERSION_WITH_NULL_PROTOCOL else ""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name or no_name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            JoinGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in reply.members
        ),
    )


def sync_event(token: int, header: RequestHeader, message: SyncGroupRequest) -> SyncGroupReceived:
    return SyncGroupReceived(
        token=token,
        version=header.api_version,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments=tuple(
            (assignment.member_id, assignment.assignment) for assignment in message.assignments
        ),
    )


def sync_response(reply: SyncGroupReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


def leave_event(
    token: int, header: RequestHeader, message: LeaveGroupRequest
) -> LeaveGroupReceived:
    if header.api_version < FIRST_LEAVE_VERSION_WITH_MEMBERS:
        return LeaveGroupReceived(token=token, members=(Leaver(member_id=message.member_id),))
    return LeaveGroupReceived(
        token=token,
        members=tuple(
            Leaver(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                reason=member.reason,
            )
            for member in message.members
        ),
    )


def leave_response(reply: LeaveGroupReply, version: int) -> LeaveGroupResponse:
    if version < FIRST_LEAVE_VERSION_WITH_MEMBERS:
        error = reply.error or (reply.members[0].error if reply.members else 0)
        return LeaveGroupResponse(error_code=error)
    return LeaveGroupResponse(
        error_code=reply.error,
        members=tuple(
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=member.error,
            )
            for member in reply.members
        ),
    )


@lru_cache(HOSTS_MAX)
def shown_host(client_host: str) -> str:
    """The host of a client as Kafka shows it: Java writes an address without a name so."""
    return f"/{client_host}"


def consumer_heartbeat_event(
    token: int,
    header: RequestHeader,
    message: ConsumerGroupHeartbeatRequest,
    client_host: str,
    fresh_id: UUID,
    *,
    connection: int = 0,
    newest_connection: int = 0,
    follows_answers: bool = True,
    calls_within_ms: int = 0,
) -> ConsumerHeartbeatReceived:
    owned, computes = message.topic_partitions, message.client_assignors
    return ConsumerHeartbeatReceived(
        token=token,
        version=header.api_version,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        client_id=header.client_id or "",
        client_host=shown_host(client_host),
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        topic_names=message.subscribed_topic_names,
        topic_regex=message.subscribed_topic_regex,
        server_assignor=message.server_assignor,
        client_assignors=(
            None if computes is None else tuple(map(assignments.client_assignor, computes))
        ),
        owned=(
            None
            if owned is None
            else frozenset(
                Partition(topic.topic_id, n) for topic in owned for n in topic.partitions
            )
        ),
        lists_owned_topics=bool(owned),
        fresh_id=fresh_id,
        connection=connection,
        newest_connection=newest_connection,
        follows_answers=follows_answers,
        calls_within_ms=calls_within_ms,
    )


_API_OF: Mapping[type[Struct], GroupApi] = {
    JoinGroupRequest: GroupApi.JOIN,
    SyncGroupRequest: GroupApi.SYNC,
    HeartbeatRequest: GroupApi.HEARTBEAT,
    LeaveGroupRequest: GroupApi.LEAVE,
    ConsumerGroupPrepareAssignmentRequest: GroupApi.ASSIGNMENT,
    ConsumerGroupInstallAssignmentRequest: GroupApi.ASSIGNMENT,
    OffsetCommitRequest: GroupApi.COMMIT,
    TxnOffsetCommitRequest: GroupApi.TXN_COMMIT,
    OffsetDeleteRequest: GroupApi.OFFSET_DELETE,
}


def api_of(message: GroupMessage) -> GroupApi:
    """The api of this message in the table of answers."""
    if not isinstance(message, ConsumerGroupHeartbeatRequest):
        return _API_OF[type(message)]
    if message.member_epoch > 0:
        return GroupApi.CONSUMER_HEARTBEAT
    return GroupApi.CONSUMER_LEAVE if message.member_epoch else GroupApi.CONSUMER_JOIN


def event(
    token: Token,
    header: RequestHeader,
    message: MemberMessage,
    client_host: str,
    *,
    connection: int = 0,
    newest_connection: int = 0,
    follows_answers: bool = True,
    calls_within_ms: int = 0,
) -> Request:
    """The engine's event for a member's message, which came on this connection."""
    match message:
        case JoinGroupRequest():
            return join_event(token, header, message, client_host, uuid4())
        case SyncGroupRequest():
            return sync_event(token, header, message)
        case HeartbeatRequest():
            return HeartbeatReceived(
                token=token,
                member_id=message.member_id,
                instance_id=message.group_instance_id,
                generation=message.generation_id,
            )
        case LeaveGroupRequest():
            return leave_event(token, header, message)
        case ConsumerGroupHeartbeatRequest():
            fresh_id = _NO_ID if message.member_id else uuid4()
            return consumer_heartbeat_event(
                token,
                header,
                message,
                client_host,
                fresh_id,
                connection=connection,
                newest_connection=newest_connection,
                follows_answers=follows_answers,
                calls_within_ms=calls_within_ms,
            )
        case ConsumerGroupPrepareAssignmentRequest():
            return assignments.prepare_event(token, message)
        case ConsumerGroupInstallAssignmentRequest():
            return assignments.install_event(token, message)


def response(reply: Reply, version: int) -> Struct:
    """The message for a reply of the engine. Raises TypeError for a reply about offsets, configs or
    a deletion."""
    match reply:
        case JoinGroupReply():
            return join_response(reply, version)
        case SyncGroupReply():
            return sync_response(reply)
        case HeartbeatReply():
            return HeartbeatResponse(error_code=reply.error)
        case LeaveGroupReply():
            return leave_response(reply, version)
        case ConsumerHeartbeatReply():
            return consumer_heartbeat_response(reply)
        case PrepareAssignmentReply():
            return assignments.prepare_response(reply)
        case InstallAssignmentReply():
            return assignments.install_response(reply)
        case _:
            raise TypeError(f"{type(reply).__name__} answers no member")


def consumer_heartbeat_response(reply: ConsumerHeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if reply.assignment is not None:
        metadata = reply.assignment_metadata
        assignment = consumer_group_heartbeat.Assignment(
            topic_partitions=assignments.topic_partitions(reply.assignment),
            error=reply.assignment_error,
            metadata_version=metadata.version if metadata else 0,
            metadata_bytes=metadata.metadata if metadata else None,
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.reason or None,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=assignment,
        should_compute_assignment=reply.should_compute,
    )
