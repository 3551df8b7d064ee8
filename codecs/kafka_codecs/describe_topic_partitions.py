"""DescribeTopicPartitions (key 75), version 0: topics in pages (KIP-966).

Errors, per topic: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION,
INVALID_REQUEST; per partition: LEADER_NOT_AVAILABLE.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.metadata import AUTHORIZED_OPERATIONS_OMITTED
from kafka_codecs.primitives import Int16, Int32


@structure
class DescribedTopicName(Struct):
    """A topic to describe."""

    name: str = wire(entity=Entity.TOPIC)


@structure
class Cursor(Struct):
    """The first partition of a page. Its topic is only a position in the alphabet."""

    topic_name: str
    partition_index: Int32


@message(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=range(1))
class DescribeTopicPartitionsRequest(Struct):
    """Describe a page of partitions; without topics, of all topics."""

    topics: tuple[DescribedTopicName, ...]
    response_partition_limit: Int32 = 2_000
    cursor: Cursor | None = None


@structure
class DescribedPartition(Struct):
    """A partition, its leader (-1 for none) and its replicas."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...]
    isr_nodes: tuple[Int32, ...]
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...]


@structure
class DescribedTopic(Struct):
    """A topic and its partitions on this page."""

    error_code: Int16 = 0
    name: str | None = wire(entity=Entity.TOPIC)
    topic_id: UUID = wire(entity=Entity.TOPIC_ID)
    is_internal: bool = False
    partitions: tuple[DescribedPartition, ...]
    topic_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@message(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=range(1))
class DescribeTopicPartitionsResponse(Struct):
    """A page; `next_cursor` is null on the last one."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DescribedTopic, ...] = ()
    next_cursor: Cursor | None = None
