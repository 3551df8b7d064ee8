"""Fetch (key 1), versions 0 to 18; Kafka 4 has dropped versions 0 to 3.

- v1 adds the throttle time, v2 returns records with timestamps; v3 adds the limit of the answer.
- v4 adds the isolation level (KIP-98); v5 adds the log start offset.
- v7 adds sessions: a request with an epoch above 0 names only what has changed (KIP-227).
- v9 adds the leader epoch that the client knows; v11 adds the rack and the preferred read replica.
- v12 is flexible; it adds the cluster id, the diverging epoch, and the current leader (KIP-595).
- v13 identifies topics by id instead of by name (KIP-516).
- v15 moves the replica id into a tagged field (KIP-903).
- v16 adds the addresses of the current leaders, at the end of the response (KIP-951).
- v17 adds the id of a follower's log directory (KIP-853), v18 the high watermark that it knows.

Errors, top-level: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
FETCH_SESSION_TOPIC_ID_ERROR, INCONSISTENT_TOPIC_ID; per partition: OFFSET_OUT_OF_RANGE,
TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID (v13+),
NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR,
REPLICA_NOT_AVAILABLE, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int8, Int16, Int32, Int64
from kafka_codecs.produce import LeaderIdAndEpoch, NodeEndpoint

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@structure
class ReplicaState(Struct):
    """The follower that fetches; -1 for a consumer."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@structure
class FetchPartition(Struct):
    """A partition to read, with the offset to start at and the most bytes to return."""

    partition: Int32
    current_leader_epoch: Int32 = wire(since=9, default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = wire(since=12, default=-1)
    log_start_offset: Int64 = wire(since=5, default=-1, ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: UUID = wire(since=17, tag=0, default=NO_TOPIC_ID, ignorable=True)
    high_watermark: Int64 = wire(since=18, tag=1, default=_INT64_MAX, ignorable=True)


@structure
class FetchTopic(Struct):
    """A topic to read, by name up to v12, by id from v13 on."""

    topic: str = wire(until=12, default="", ignorable=True, entity=Entity.TOPIC)
    topic_id: UUID = wire(since=13, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    partitions: tuple[FetchPartition, ...]


@structure
class ForgottenTopic(Struct):
    """A topic that leaves the session, by name up to v12, by id from v13 on."""

    topic: str = wire(until=12, default="", ignorable=True, entity=Entity.TOPIC)
    topic_id: UUID = wire(since=13, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    partitions: tuple[Int32, ...]


@message(ApiKey.FETCH, versions=range(19))
class FetchRequest(Struct):
    """Read records. With a session epoch above 0, `topics` lists only what has changed."""

    cluster_id: str | None = wire(since=12, tag=0, default=None, ignorable=True)
    replica_id: Int32 = wire(until=14, default=-1)
    replica_state: ReplicaState = wire(since=15, tag=1, default=ReplicaState())
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = wire(since=3, default=_INT32_MAX, ignorable=True)
    isolation_level: Int8 = wire(since=4, default=0, ignorable=True)
    session_id: Int32 = wire(since=7, default=0, ignorable=True)
    session_epoch: Int32 = wire(since=7, default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...] = wire(since=7, default=())
    rack_id: str = wire(since=11, default="", ignorable=True)


@structure
class EpochEndOffset(Struct):
    """The largest epoch and end offset that leader and follower may share."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@structure
class SnapshotId(Struct):
    """The snapshot that a follower fetches instead of records."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@structure
class AbortedTransaction(Struct):
    """A consumer skips the producer's records from `first_offset` on."""

    producer_id: Int64
    first_offset: Int64


@structure
class PartitionData(Struct):
    """The records and offsets of a partition."""

    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = wire(since=4, default=-1, ignorable=True)
    log_start_offset: Int64 = wire(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = wire(since=12, tag=0, default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = wire(
        since=12, tag=1, default=LeaderIdAndEpoch(), ignorable=True
    )
    snapshot_id: SnapshotId = wire(since=12, tag=2, default=SnapshotId())
    aborted_transactions: tuple[AbortedTransaction, ...] | None = wire(
        since=4, default=(), ignorable=True
    )
    preferred_read_replica: Int32 = wire(since=11, default=-1)
    records: bytes | None


@structure
class FetchableTopicResponse(Struct):
    """A topic, by name up to v12, by id from v13 on."""

    topic: str = wire(until=12, default="", ignorable=True, entity=Entity.TOPIC)
    topic_id: UUID = wire(since=13, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    partitions: tuple[PartitionData, ...]


@message(ApiKey.FETCH, versions=range(19))
class FetchResponse(Struct):
    """The records; `session_id` is 0 without a session."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    error_code: Int16 = wire(since=7, default=0, ignorable=True)
    session_id: Int32 = wire(since=7, default=0)
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = wire(since=16, tag=0, default=())
