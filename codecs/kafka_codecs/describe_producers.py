"""DescribeProducers (key 61), version 0 (KIP-664).

Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class ProducersTopicRequest(Struct):
    """The partitions of a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partition_indexes: tuple[Int32, ...]


@message(ApiKey.DESCRIBE_PRODUCERS, versions=range(1))
class DescribeProducersRequest(Struct):
    """Request the producers that have written to partitions."""

    topics: tuple[ProducersTopicRequest, ...]


@structure
class ProducerState(Struct):
    """A producer; -1 for what is unknown."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@structure
class ProducersPartitionResponse(Struct):
    """The producers of a partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...]


@structure
class ProducersTopicResponse(Struct):
    """The answers for a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[ProducersPartitionResponse, ...]


@message(ApiKey.DESCRIBE_PRODUCERS, versions=range(1))
class DescribeProducersResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    topics: tuple[ProducersTopicResponse, ...] = ()
