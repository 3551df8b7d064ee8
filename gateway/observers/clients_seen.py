"""Reports each client that joins a group, hosted or forwarded, once until it changes, and each that
leaves a forwarded one.

Also reports a native client that was refused because its group cannot become a consumer group: the
answer to that client is the only other place with the reason.
"""

from coordinator.group.embedded_protocol import version_of
from coordinator.interface.events import LEAVE_EPOCH
from coordinator.interface.records import RemovalCause
from gateway.data_path.group_apis import GroupRequest
from gateway.events.event import EventSink
from gateway.events.group_events import ConversionRefused
from gateway.events.member_events import ClientSeen, MemberLeft
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse

REMEMBERED_MAX = 20_000
"""Clients remembered as reported. Beyond that the oldest are forgotten, and reported again."""


class ClientsSeen:
    """Sees each join and its answer."""

    def __init__(self, emit: EventSink, names: ShareRule) -> None:
        self._emit = emit
        self._told: QuotaCache[int, None] = QuotaCache(REMEMBERED_MAX, names)

    def record(self, request: GroupRequest, answer: Struct) -> None:
        """Report the client unless it was reported before."""
        match request.message, answer:
            case JoinGroupRequest(), JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                pass  # the client comes back with the id, or never joins
            case JoinGroupRequest(group_id=group_id) as message, JoinGroupResponse():
                member_id = answer.member_id or message.member_id
                self._once(request.owner, group_id, _classic(request, message, member_id))
            case (
                ConsumerGroupHeartbeatRequest(group_id=group_id, member_epoch=0) as message,
                ConsumerGroupHeartbeatResponse(error_code=error),
            ):
                seen = _native(request, message, answer.member_id or message.member_id)
                self._once(request.owner, group_id, seen)
                if error == ErrorCode.GROUP_ID_NOT_FOUND:
                    self._once(
                        request.owner,
                        group_id,
                        ConversionRefused(
                            direction="classic->consumer",
                            member_id=seen.member_id,
                            client_id=seen.client_id,
                            reason=answer.error_message or "",
                        ),
                    )
            case _:
                pass

    def record_departure(self, request: GroupRequest, answer: Struct) -> None:
        """Report the members that have left a group in the cluster."""
        match request.message, answer:
            case (
                LeaveGroupRequest(group_id=group_id) as message,
                LeaveGroupResponse(error_code=0, members=answers),
            ):
                left = [message.member_id] if message.member_id else []
                left += [member.member_id for member in answers if not member.error_code]
            case (
                ConsumerGroupHeartbeatRequest(member_epoch=epoch, group_id=group_id) as message,
                ConsumerGroupHeartbeatResponse(error_code=0),
            ) if epoch == LEAVE_EPOCH:  # a static member with another epoch comes back
                left = [message.member_id]
            case _:
                return
        for member_id in filter(None, left):
            event = MemberLeft(member_id=member_id, cause=RemovalCause.LEFT)
            self._emit(event, group_id, request.owner)

    def _once(self, owner: QuotaKey, group_id: str, event: ClientSeen | ConversionRefused) -> None:
        key = hash((group_id, event))  # a fixed size, because clients choose the lengths of names
        if key not in self._told:
            self._emit(event, group_id, owner)
        self._told.put(key, None, owner)


def _classic(request: GroupRequest, message: JoinGroupRequest, member_id: str) -> ClientSeen:
    software = request.upstream.introduction
    is_consumer = message.protocol_type == CONSUMER_PROTOCOL_TYPE
    versions = (
        [version_of(protocol.metadata) for protocol in message.protocols] if is_consumer else []
    )
    return ClientSeen(
        member_id=member_id,
        client_id=request.header.client_id or "",
        client_host=f"/{request.client_host}",
        tls_subject=request.tls_subject,
        instance_id=message.group_instance_id,
        software_name=software.name if software else None,
        software_version=software.version if software else None,
        protocol="classic",
        protocol_type=message.protocol_type,
        embedded_version=min(versions, default=None),
        assignors=tuple(protocol.name for protocol in message.protocols),
    )


def _native(
    request: GroupRequest, message: ConsumerGroupHeartbeatRequest, member_id: str
) -> ClientSeen:
    software = request.upstream.introduction
    server_side = () if message.server_assignor is None else (message.server_assignor,)
    return ClientSeen(
        member_id=member_id,
        client_id=request.header.client_id or "",
        client_host=f"/{request.client_host}",
        tls_subject=request.tls_subject,
        instance_id=message.instance_id,
        software_name=software.name if software else None,
        software_version=software.version if software else None,
        protocol="consumer",
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        embedded_version=None,
        assignors=server_side
        or tuple(assignor.name for assignor in message.client_assignors or ()),
    )
