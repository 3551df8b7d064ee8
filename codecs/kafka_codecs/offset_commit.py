"""OffsetCommit (key 8), versions 0 to 10; Kafka 4 has dropped versions 0 and 1.

- v0 means ZooKeeper: brokers store its offsets there, and without ZooKeeper refuse it.
- v1 is the first for members, with a timestamp for each offset; v2 has a retention time instead.
- v3 adds the throttle time; v4 lets a broker answer before it throttles.
- v5 drops the retention time, v6 adds the leader epoch, v7 the group instance id.
- v8 is flexible; v9 is the first for members of the consumer protocol (KIP-848).
- v10 identifies topics by id instead of by name.

Errors, per partition also when the whole request fails: GROUP_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
REBALANCE_IN_PROGRESS, INVALID_COMMIT_OFFSET_SIZE, OFFSET_METADATA_TOO_LARGE, FENCED_INSTANCE_ID
(v7+), FENCED_MEMBER_EPOCH (v7+), UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND
(v9+), UNKNOWN_TOPIC_ID (v10+).
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int16, Int32, Int64, PassedOn


@structure
class OffsetCommitRequestPartition(Struct):
    """The offset to commit for a partition."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = wire(since=6, default=-1, ignorable=True)
    commit_timestamp: Int64 = wire(since=1, until=1, default=-1, ignorable=True)
    committed_metadata: PassedOn | None


@structure
class OffsetCommitRequestTopic(Struct):
    """A topic, by name up to v9, by id from v10 on."""

    name: str = wire(until=9, default="", ignorable=True)
    topic_id: UUID = wire(since=10, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@message(ApiKey.OFFSET_COMMIT, versions=range(11))
class OffsetCommitRequest(Struct):
    """Commit offsets; a client outside the group sends epoch -1 and no member id."""

    group_id: str
    generation_id_or_member_epoch: Int32 = wire(since=1, default=-1, ignorable=True)
    member_id: str = wire(since=1, default="", ignorable=True)
    group_instance_id: str | None = wire(since=7, default=None)
    retention_time_ms: Int64 = wire(since=2, until=4, default=-1, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...]


@structure
class OffsetCommitResponsePartition(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class OffsetCommitResponseTopic(Struct):
    """A topic, by name up to v9, by id from v10 on."""

    name: str = wire(until=9, default="", ignorable=True)
    topic_id: UUID = wire(since=10, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...]


@message(ApiKey.OFFSET_COMMIT, versions=range(11))
class OffsetCommitResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = wire(since=3, default=0, ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
