"""Kafka's messages for the requests of simulated consumers and for the engine's replies."""

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.replies import Reply
from gateway.requests.messages import MemberMessage, response
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest

VERSION = 9
"""The newest version of JoinGroup, which has the fields of all others."""


def request_message(event: Request, group_id: str) -> MemberMessage:
    """The message that the engine's event was made from, as far as a gateway reads it."""
    match event:
        case JoinGroupReceived():
            return JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=event.session_timeout_ms,
                rebalance_timeout_ms=event.rebalance_timeout_ms,
                member_id=event.member_id,
                group_instance_id=event.instance_id,
                protocol_type=event.protocol_type,
                protocols=tuple(
                    JoinGroupProtocol(name=name, metadata=metadata)
                    for name, metadata in event.protocols
                ),
            )
        case SyncGroupReceived():
            return SyncGroupRequest(
                group_id=group_id,
                generation_id=event.generation,
                member_id=event.member_id,
                group_instance_id=event.instance_id,
                protocol_type=event.protocol_type,
                protocol_name=event.protocol_name,
                assignments=tuple(
                    SyncGroupAssignment(member_id=member_id, assignment=assignment)
                    for member_id, assignment in event.assignments
                ),
            )
        case HeartbeatReceived():
            return HeartbeatRequest(
                group_id=group_id,
                generation_id=event.generation,
                member_id=event.member_id,
                group_instance_id=event.instance_id,
            )
        case LeaveGroupReceived():
            return LeaveGroupRequest(
                group_id=group_id,
                members=tuple(
                    MemberIdentity(member_id=leaver.member_id, group_instance_id=leaver.instance_id)
                    for leaver in event.members
                ),
            )
        case ConsumerHeartbeatReceived():
            return ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id=event.member_id,
                member_epoch=event.member_epoch,
                instance_id=event.instance_id,
            )
        case _:
            raise TypeError(f"{type(event).__name__} is no request of a member")


def answer_message(reply: Reply, version: int = VERSION) -> Struct:
    """The message that a reply of the engine becomes."""
    return response(reply, version)
