"""WriteTxnMarkers (key 27), the response only, versions 1 and 2: requests are relayed, not read.

Flexible from the start. v2 adds the transaction version to the request (KIP-1228).

Errors, per partition: CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class WritableTxnMarkerPartitionResult(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class WritableTxnMarkerTopicResult(Struct):
    """The answers for a topic."""

    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@structure
class WritableTxnMarkerResult(Struct):
    """The answers for a producer's transaction."""

    producer_id: Int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message(ApiKey.WRITE_TXN_MARKERS, versions=range(1, 3))
class WriteTxnMarkersResponse(Struct):
    """The answer for each marker."""

    markers: tuple[WritableTxnMarkerResult, ...] = ()
