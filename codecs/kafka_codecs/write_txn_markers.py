"""WriteTxnMarkers (key 27), versions 0 to 2; Kafka 4 has dropped version 0.

v1 is flexible. v2 adds the transaction version to the request (KIP-1228).

Errors, per partition: CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32, Int64


@structure
class WritableTxnMarkerTopic(Struct):
    """The partitions of a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partition_indexes: tuple[Int32, ...]


@structure
class WritableTxnMarker(Struct):
    """The end of a producer's transaction."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: Int32
    transaction_version: Int8 = wire(since=2, default=0, ignorable=True)


@message(ApiKey.WRITE_TXN_MARKERS, versions=range(3))
class WriteTxnMarkersRequest(Struct):
    """End transactions in their partitions."""

    markers: tuple[WritableTxnMarker, ...]


@structure
class WritableTxnMarkerPartitionResult(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class WritableTxnMarkerTopicResult(Struct):
    """The answers for a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@structure
class WritableTxnMarkerResult(Struct):
    """The answers for a producer's transaction."""

    producer_id: Int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message(ApiKey.WRITE_TXN_MARKERS, versions=range(3))
class WriteTxnMarkersResponse(Struct):
    """The answer for each marker."""

    markers: tuple[WritableTxnMarkerResult, ...] = ()
