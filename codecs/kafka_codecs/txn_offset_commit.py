"""TxnOffsetCommit (key 28), versions 0 to 6.

- v1 lets a broker answer before it throttles; v2 adds the leader epoch.
- v3 is flexible and adds generation, member id and group instance id (KIP-447).
- v4 may answer TRANSACTION_ABORTABLE (KIP-890).
- v5 also adds the group to the transaction (transactions v2); other clients stay at v4.
- v6 identifies topics by id instead of by name (Kafka 4.4).

Errors, per partition: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, INVALID_PRODUCER_EPOCH,
INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, OFFSET_METADATA_TOO_LARGE,
INVALID_COMMIT_OFFSET_SIZE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID (v3+),
TRANSACTION_ABORTABLE (v4+), GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH and UNKNOWN_TOPIC_ID (v6+).
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int16, Int32, Int64, PassedOn


@structure
class TxnOffsetCommitRequestPartition(Struct):
    """The offset to commit for a partition."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = wire(since=2, default=-1, ignorable=True)
    committed_metadata: PassedOn | None


@structure
class TxnOffsetCommitRequestTopic(Struct):
    """A topic, by name up to v5, by id from v6 on."""

    name: str = wire(until=5, default="", ignorable=True)
    topic_id: UUID = wire(since=6, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@message(ApiKey.TXN_OFFSET_COMMIT, versions=range(7))
class TxnOffsetCommitRequest(Struct):
    """Commit offsets as part of a transaction."""

    transactional_id: str = wire(entity=Entity.TRANSACTIONAL_ID)
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = wire(since=3, default=-1)
    member_id: str = wire(since=3, default="")
    group_instance_id: str | None = wire(since=3, default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@structure
class TxnOffsetCommitResponsePartition(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class TxnOffsetCommitResponseTopic(Struct):
    """A topic, by name up to v5, by id from v6 on."""

    name: str = wire(until=5, default="", ignorable=True)
    topic_id: UUID = wire(since=6, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@message(ApiKey.TXN_OFFSET_COMMIT, versions=range(7))
class TxnOffsetCommitResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
