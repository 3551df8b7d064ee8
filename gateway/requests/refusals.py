"""Answers that consist of one error, for the apis about a single group."""

from coordinator.interface.replies import JoinGroupReply, LeaveGroupReply, SyncGroupReply
from gateway.hosting.answers import RefusalReason, code_for
from gateway.requests import messages
from gateway.requests.messages import GroupMessage, api_of
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from kafka_codecs.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_codecs.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_codecs.sync_group import SyncGroupRequest
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def refuse(message: GroupMessage, version: int, cause: RefusalReason, reason: str) -> Struct:
    """The answer to this message in this situation."""
    return refusal(message, version, code_for(cause, api_of(message)), reason)


def refusal(message: GroupMessage, version: int, code: ErrorCode, reason: str) -> Struct:
    """An error answer to this message. Only the apis of KIP-848 carry the reason."""
    match message:
        case JoinGroupRequest(member_id=member_id):
            return messages.join_response(JoinGroupReply(error=code, member_id=member_id), version)
        case SyncGroupRequest():
            return messages.sync_response(SyncGroupReply(error=code))
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=code)
        case LeaveGroupRequest():
            return messages.leave_response(LeaveGroupReply(error=code), version)
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message=reason or None)
        case ConsumerGroupPrepareAssignmentRequest():
            return ConsumerGroupPrepareAssignmentResponse(
                error_code=code, error_message=reason or None
            )
        case ConsumerGroupInstallAssignmentRequest():
            return ConsumerGroupInstallAssignmentResponse(
                error_code=code, error_message=reason or None
            )
        case OffsetCommitRequest():
            return _commit(message, code)
        case TxnOffsetCommitRequest():
            return _txn_commit(message, code)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=code)


def _commit(message: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def _txn_commit(message: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )
