"""ShareAcknowledge (key 79), versions 1 and 2, both flexible (KIP-932).

Version 0 was tried out in Kafka 4.0, and is in no release since.

- v2 lets a member renew the time for which it has records (KIP-1222).

The answer ends with addresses, as that of ShareFetch.

Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID,
INVALID_RECORD_STATE, KAFKA_STORAGE_ERROR, INVALID_REQUEST.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32
from kafka_codecs.produce import LeaderIdAndEpoch, NodeEndpoint
from kafka_codecs.share_fetch import AcknowledgementBatch


@structure
class AcknowledgePartition(Struct):
    """What became of records of a partition."""

    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@structure
class AcknowledgeTopic(Struct):
    """The partitions of a topic."""

    topic_id: UUID = wire(entity=Entity.TOPIC_ID)
    partitions: tuple[AcknowledgePartition, ...]


@message(ApiKey.SHARE_ACKNOWLEDGE, versions=range(1, 3))
class ShareAcknowledgeRequest(Struct):
    """Say what became of records that the member has acquired."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    is_renew_ack: bool = wire(since=2, default=False)
    topics: tuple[AcknowledgeTopic, ...]


@structure
class PartitionData(Struct):
    """The error of a partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch


@structure
class ShareAcknowledgeTopicResponse(Struct):
    """The partitions of a topic."""

    topic_id: UUID = wire(entity=Entity.TOPIC_ID)
    partitions: tuple[PartitionData, ...]


@message(ApiKey.SHARE_ACKNOWLEDGE, versions=range(1, 3))
class ShareAcknowledgeResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = wire(since=2, default=0, ignorable=True)
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
