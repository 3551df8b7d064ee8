"""What a consumer hears of the machine's answer."""

from collections.abc import Mapping

from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    InstallAssignmentReply,
    JoinGroupReply,
    LeaveGroupReply,
    Reply,
    SyncGroupReply,
)
from gateway.hosting.answers import GroupApi, code_for
from gateway.hosting.calls import Answer, Forwarded, Refused, Unanswerable
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.promises import BrokenPromiseError

_REPLIES: Mapping[GroupApi, type[Reply]] = {
    GroupApi.JOIN: JoinGroupReply,
    GroupApi.SYNC: SyncGroupReply,
    GroupApi.HEARTBEAT: HeartbeatReply,
    GroupApi.LEAVE: LeaveGroupReply,
    GroupApi.CONSUMER_JOIN: ConsumerHeartbeatReply,
    GroupApi.CONSUMER_HEARTBEAT: ConsumerHeartbeatReply,
    GroupApi.CONSUMER_LEAVE: ConsumerHeartbeatReply,
    GroupApi.ASSIGNMENT: InstallAssignmentReply,
}


def reply_to(api: GroupApi, answer: Answer) -> Reply:
    """What a consumer hears: the engine's reply, or the gateway's or the cluster's error."""
    match answer:
        case Refused(cause, reason):
            code = code_for(cause, api)
            return _REPLIES[api](error=code, reason=reason)
        case Forwarded():
            return _REPLIES[api](error=ErrorCode.UNKNOWN_MEMBER_ID)
        case Unanswerable():
            raise BrokenPromiseError("a call could not even be refused")
        case Mapping():
            raise TypeError("a commit has no reply")
        case _:
            return answer  # type: ignore[return-value]


def grants(reply: Reply) -> bool:
    """Whether the consumer may begin to consume, or assign, partitions because of it. The explorer
    judges this by itself: with the machine's own function it would miss a mistake in it."""
    match reply:
        case JoinGroupReply() | SyncGroupReply():
            return not reply.error
        case ConsumerHeartbeatReply():
            return not reply.error and reply.assignment is not None
        case _:
            return False
