"""ElectLeaders (key 43), versions 0 to 2.

v1 adds a top-level error and unclean elections (KIP-460); v2 is flexible.

Errors, top-level: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER; per partition:
ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
UNKNOWN_TOPIC_OR_PARTITION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32


@structure
class TopicPartitions(Struct):
    """The partitions of a topic."""

    topic: str = wire(entity=Entity.TOPIC)
    partitions: tuple[Int32, ...]


@message(ApiKey.ELECT_LEADERS, versions=range(3))
class ElectLeadersRequest(Struct):
    """Elect the leaders of these partitions; null means all partitions."""

    election_type: Int8 = wire(since=1, default=0)
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout_ms: Int32 = 60_000


@structure
class PartitionResult(Struct):
    """The answer for a partition."""

    partition_id: Int32
    error_code: Int16 = 0
    error_message: str | None = None


@structure
class ReplicaElectionResult(Struct):
    """The answers for a topic."""

    topic: str = wire(entity=Entity.TOPIC)
    partition_result: tuple[PartitionResult, ...]


@message(ApiKey.ELECT_LEADERS, versions=range(3))
class ElectLeadersResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = wire(since=1, default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()
