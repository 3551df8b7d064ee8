"""Produce (key 0), the response only, versions 0 to 13: requests are relayed, not read.

Kafka 4 has dropped versions 0 to 2, and lists them all the same: librdkafka before 2.11 takes them
for the sign of a broker that knows compression (KAFKA-18659).

- v1 adds the throttle time, v2 the time of the append.
- v3 is the first for transactional producers, and the first of Kafka 4.
- v4 may answer KAFKA_STORAGE_ERROR; v5 adds the log start offset.
- v8 adds the errors of single records and a message (KIP-467); v9 is flexible.
- v10 adds the current leader of a partition and its address, as tagged fields (KIP-951).
- v11 may answer TRANSACTION_ABORTABLE, v12 is for transactions v2 (KIP-890).
- v13 identifies topics by id instead of by name (KIP-516).

Errors, per partition: any error of an append to the log; with NOT_LEADER_OR_FOLLOWER a broker names
the new leader.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class BatchIndexAndErrorMessage(Struct):
    """A record that caused its whole batch to fail."""

    batch_index: Int32
    batch_index_error_message: str | None = None


@structure
class LeaderIdAndEpoch(Struct):
    """The leader of a partition; -1 if unknown."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@structure
class PartitionProduceResponse(Struct):
    """The answer for a partition."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = wire(since=2, default=-1, ignorable=True)
    log_start_offset: Int64 = wire(since=5, default=-1, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = wire(since=8, default=(), ignorable=True)
    error_message: str | None = wire(since=8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = wire(since=10, tag=0, default=LeaderIdAndEpoch())


@structure
class TopicProduceResponse(Struct):
    """A topic, by name up to v12, by id from v13 on."""

    name: str = wire(until=12, default="", ignorable=True, entity=Entity.TOPIC)
    topic_id: UUID = wire(since=13, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    partition_responses: tuple[PartitionProduceResponse, ...]


@structure
class NodeEndpoint(Struct):
    """The address of a leader."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message(ApiKey.PRODUCE, versions=range(14))
class ProduceResponse(Struct):
    """The answer for each partition."""

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    node_endpoints: tuple[NodeEndpoint, ...] = wire(since=10, tag=0, default=())
