"""AlterPartitionReassignments (key 45), versions 0 and 1.

Flexible from the start (KIP-455). v1 says whether the replication
factor may change (KIP-860).

Errors, top-level: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, REQUEST_TIMED_OUT; per partition:
INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS,
UNKNOWN_TOPIC_OR_PARTITION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@structure
class ReassignablePartition(Struct):
    """A partition, and its new replicas; null cancels a reassignment that is under way."""

    partition_index: Int32
    replicas: tuple[Int32, ...] | None = None


@structure
class ReassignableTopic(Struct):
    """The partitions of a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[ReassignablePartition, ...]


@message(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=range(2))
class AlterPartitionReassignmentsRequest(Struct):
    """Give partitions other replicas."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: bool = wire(since=1, default=True)
    topics: tuple[ReassignableTopic, ...]


@structure
class ReassignablePartitionResponse(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = None


@structure
class ReassignableTopicResponse(Struct):
    """The answers for a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[ReassignablePartitionResponse, ...]


@message(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=range(2))
class AlterPartitionReassignmentsResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = wire(since=1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()
