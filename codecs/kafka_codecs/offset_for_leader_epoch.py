"""OffsetForLeaderEpoch (key 23), versions 0 to 4; Kafka 4 has dropped versions 0 and 1.

v1 adds the leader epoch to the answer, v2 the throttle time and the client's own epoch; v3 lets a
follower ask; v4 is flexible.

Errors, per partition: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER,
UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class OffsetForLeaderPartition(Struct):
    """A partition, and the leader epoch whose end is wanted."""

    partition: Int32
    current_leader_epoch: Int32 = wire(since=2, default=-1, ignorable=True)
    leader_epoch: Int32


@structure
class OffsetForLeaderTopic(Struct):
    """The partitions of a topic."""

    topic: str = wire(entity=Entity.TOPIC)
    partitions: tuple[OffsetForLeaderPartition, ...]


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=range(5))
class OffsetForLeaderEpochRequest(Struct):
    """Request the end offsets of leader epochs. The replica id of a consumer is -1 or -2."""

    replica_id: Int32 = wire(since=3, default=-2, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...]


@structure
class EpochEndOffset(Struct):
    """The end offset of a leader epoch in a partition; -1 if unknown."""

    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = wire(since=1, default=-1, ignorable=True)
    end_offset: Int64 = -1


@structure
class OffsetForLeaderTopicResult(Struct):
    """The answers for a topic."""

    topic: str = wire(entity=Entity.TOPIC)
    partitions: tuple[EpochEndOffset, ...]


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=range(5))
class OffsetForLeaderEpochResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = wire(since=2, default=0, ignorable=True)
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
