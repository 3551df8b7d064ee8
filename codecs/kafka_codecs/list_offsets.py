"""ListOffsets (key 2), versions 0 to 11; Kafka 4 has dropped version 0.

- v0 asks for several offsets at or before a time, and v1 for one with its timestamp.
- v2 adds the throttle time and the isolation level; v4 adds the leader epoch; v6 is flexible.
- v7 to v11 change the timestamps that a request may use; v10 adds a timeout.

Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
TOPIC_AUTHORIZATION_FAILED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32, Int64

LATEST = -1
"""The timestamp that asks for the end of a partition."""
EARLIEST = -2
"""The timestamp that asks for its first record."""


@structure
class ListOffsetsPartition(Struct):
    """A partition, and the time whose offset is wanted."""

    partition_index: Int32
    current_leader_epoch: Int32 = wire(since=4, default=-1, ignorable=True)
    timestamp: Int64
    max_num_offsets: Int32 = wire(until=0, default=1)


@structure
class ListOffsetsTopic(Struct):
    """The partitions of a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[ListOffsetsPartition, ...]


@message(ApiKey.LIST_OFFSETS, versions=range(12))
class ListOffsetsRequest(Struct):
    """Asks for offsets of partitions that the broker leads. The replica id of a consumer is -1."""

    replica_id: Int32 = -1
    isolation_level: Int8 = wire(since=2, default=0)
    topics: tuple[ListOffsetsTopic, ...]
    timeout_ms: Int32 = wire(since=10, default=0, ignorable=True)


@structure
class ListOffsetsPartitionResponse(Struct):
    """The offset found in a partition; -1 if there is none."""

    partition_index: Int32
    error_code: Int16 = 0
    old_style_offsets: tuple[Int64, ...] = wire(until=0, default=())
    timestamp: Int64 = wire(since=1, default=-1)
    offset: Int64 = wire(since=1, default=-1)
    leader_epoch: Int32 = wire(since=4, default=-1, ignorable=True)


@structure
class ListOffsetsTopicResponse(Struct):
    """The answers for a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@message(ApiKey.LIST_OFFSETS, versions=range(12))
class ListOffsetsResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = wire(since=2, default=0, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
