"""AddPartitionsToTxn (key 24), versions 0 to 3.

v1 lets a broker answer before it throttles; v2 may answer PRODUCER_FENCED; v3 is flexible. Only
brokers send later versions (KIP-890).

Errors, per partition: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH,
INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class AddPartitionsToTxnTopic(Struct):
    """The partitions of a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[Int32, ...]


@message(ApiKey.ADD_PARTITIONS_TO_TXN, versions=range(4))
class AddPartitionsToTxnRequest(Struct):
    """Add partitions to a transaction. (The names with `v3_and_below` are Kafka's.)"""

    v3_and_below_transactional_id: str = wire(entity=Entity.TRANSACTIONAL_ID)
    v3_and_below_producer_id: Int64
    v3_and_below_producer_epoch: Int16
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]


@structure
class AddPartitionsToTxnPartitionResult(Struct):
    """The answer for a partition."""

    partition_index: Int32
    partition_error_code: Int16 = 0


@structure
class AddPartitionsToTxnTopicResult(Struct):
    """The answers for a topic."""

    name: str = wire(entity=Entity.TOPIC)
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@message(ApiKey.ADD_PARTITIONS_TO_TXN, versions=range(4))
class AddPartitionsToTxnResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()
