"""ListPartitionReassignments (key 46), version 0 (KIP-455).

Errors, top-level: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, REQUEST_TIMED_OUT,
UNKNOWN_TOPIC_OR_PARTITION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@structure
class ListPartitionReassignmentsTopics(Struct):
    """The partitions of a topic. (The plural name is Kafka's.)"""

    name: str = wire(entity=Entity.TOPIC)
    partition_indexes: tuple[Int32, ...]


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1))
class ListPartitionReassignmentsRequest(Struct):
    """Request the reassignments that are under way; null `topics` means all topics."""

    timeout_ms: Int32 = 60_000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


@structure
class OngoingPartitionReassignment(Struct):
    """A partition, its replicas, and those that come and go."""

    partition_index: Int32
    replicas: tuple[Int32, ...]
    adding_replicas: tuple[Int32, ...]
    removing_replicas: tuple[Int32, ...]


@structure
class OngoingTopicReassignment(Struct):
    """The partitions of a topic that are being reassigned."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[OngoingPartitionReassignment, ...]


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1))
class ListPartitionReassignmentsResponse(Struct):
    """The reassignments that are under way."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()
