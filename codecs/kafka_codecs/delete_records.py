"""DeleteRecords (key 21), versions 0 to 2.

v1 lets a broker answer before it throttles; v2 is flexible.

Errors, per partition: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, NOT_LEADER_OR_FOLLOWER,
UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, REQUEST_TIMED_OUT.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class DeleteRecordsPartition(Struct):
    """A partition, and the offset before which its records are deleted; -1 for all of them."""

    partition_index: Int32
    offset: Int64


@structure
class DeleteRecordsTopic(Struct):
    """The partitions of a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[DeleteRecordsPartition, ...]


@message(ApiKey.DELETE_RECORDS, versions=range(3))
class DeleteRecordsRequest(Struct):
    """Delete the oldest records of partitions."""

    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: Int32


@structure
class DeleteRecordsPartitionResult(Struct):
    """The new log start offset of a partition; -1 after an error."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


@structure
class DeleteRecordsTopicResult(Struct):
    """The answers for a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message(ApiKey.DELETE_RECORDS, versions=range(3))
class DeleteRecordsResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
