"""ShareFetch (key 78), versions 1 and 2, both flexible (KIP-932).

Version 0 was tried out in Kafka 4.0, and is in no release since.

- v1 adds the limits of records and the time for which records are acquired.
- v2 adds the mode of acquiring records and lets a member renew their time (KIP-1206, KIP-1222).

The answer ends with the addresses of the leaders of those partitions that another broker leads.

Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND,
INVALID_SHARE_SESSION_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID,
INVALID_RECORD_STATE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, INVALID_REQUEST.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32, Int64
from kafka_codecs.produce import LeaderIdAndEpoch, NodeEndpoint

_INT32_MAX = 2**31 - 1


@structure
class AcknowledgementBatch(Struct):
    """What became of records: one type for all of them, or one for each."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: tuple[Int8, ...]


@structure
class FetchPartition(Struct):
    """A partition to read, and what became of its earlier records."""

    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@structure
class FetchTopic(Struct):
    """A topic to read."""

    topic_id: UUID = wire(entity=Entity.TOPIC_ID)
    partitions: tuple[FetchPartition, ...]


@structure
class ForgottenTopic(Struct):
    """A topic that leaves the session."""

    topic_id: UUID = wire(entity=Entity.TOPIC_ID)
    partitions: tuple[Int32, ...]


@message(ApiKey.SHARE_FETCH, versions=range(1, 3))
class ShareFetchRequest(Struct):
    """Acquire records. After the first request of a session, `topics` lists only what has
    changed."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = _INT32_MAX
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = wire(since=2, default=0, ignorable=True)
    is_renew_ack: bool = wire(since=2, default=False)
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]


@structure
class AcquiredRecords(Struct):
    """Records that the member has acquired, and how often they have been delivered."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@structure
class PartitionData(Struct):
    """The records of a partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: bytes
    acquired_records: tuple[AcquiredRecords, ...]


@structure
class ShareFetchableTopicResponse(Struct):
    """The partitions of a topic."""

    topic_id: UUID = wire(entity=Entity.TOPIC_ID)
    partitions: tuple[PartitionData, ...]


@message(ApiKey.SHARE_FETCH, versions=range(1, 3))
class ShareFetchResponse(Struct):
    """The records that were acquired."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
