"""DeleteRecords (key 21), the response only, versions 0 to 2: requests are relayed, not read.

v1 lets a broker answer before it throttles; v2 is flexible.

Errors, per partition: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, NOT_LEADER_OR_FOLLOWER,
UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, REQUEST_TIMED_OUT.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class DeleteRecordsPartitionResult(Struct):
    """The new log start offset of a partition; -1 after an error."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


@structure
class DeleteRecordsTopicResult(Struct):
    """The answers for a topic."""

    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message(ApiKey.DELETE_RECORDS, versions=range(3))
class DeleteRecordsResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
