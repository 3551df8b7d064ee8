"""OffsetDelete (key 47), version 0, never flexible (KIP-496).

Errors, top-level: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND,
NON_EMPTY_GROUP, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS; per
partition: GROUP_SUBSCRIBED_TO_TOPIC, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int16, Int32


@structure
class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset to delete."""

    partition_index: Int32


@structure
class OffsetDeleteRequestTopic(Struct):
    """A topic and some of its partitions."""

    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@message(ApiKey.OFFSET_DELETE, versions=range(1))
class OffsetDeleteRequest(Struct):
    """Delete committed offsets of a group."""

    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


@structure
class OffsetDeleteResponsePartition(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class OffsetDeleteResponseTopic(Struct):
    """The answers for a topic."""

    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@message(ApiKey.OFFSET_DELETE, versions=range(1))
class OffsetDeleteResponse(Struct):
    """The answer for each partition; the error code precedes the throttle time."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
