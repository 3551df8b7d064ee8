"""CreateTopics (key 19), versions 0 to 7; Kafka 4 has dropped versions 0 and 1.

- v1 adds validate_only and the error message, v2 the throttle time.
- v3 lets a broker answer before it throttles; v4 accepts -1 for the cluster's default number of
  partitions and replicas (KIP-464).
- v5 is flexible and returns the created topic's settings (KIP-525); v6 may exceed a quota
  (KIP-599); v7 returns the topic id (KIP-516).

Errors, per topic: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, POLICY_VIOLATION,
NOT_CONTROLLER, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, REQUEST_TIMED_OUT,
THROTTLING_QUOTA_EXCEEDED (v6+), INVALID_REQUEST.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int8, Int16, Int32


@structure
class CreatableReplicaAssignment(Struct):
    """The brokers that will host one partition."""

    partition_index: Int32
    broker_ids: tuple[Int32, ...]


@structure
class CreatableTopicConfig(Struct):
    """One config of the topic."""

    name: str
    value: str | None


@structure
class CreatableTopic(Struct):
    """A topic; -1 partitions or replicas if `assignments` decides, or the cluster's default."""

    name: str = wire(entity=Entity.TOPIC)
    num_partitions: Int32
    replication_factor: Int16
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@message(ApiKey.CREATE_TOPICS, versions=range(8))
class CreateTopicsRequest(Struct):
    """Create topics, or only check that they could be created."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = wire(since=1, default=False)


@structure
class CreatableTopicConfigs(Struct):
    """One config of the created topic. (The plural name is Kafka's.)"""

    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool = False


@structure
class CreatableTopicResult(Struct):
    """The answer for one topic."""

    name: str = wire(entity=Entity.TOPIC)
    topic_id: UUID = wire(since=7, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    error_code: Int16 = 0
    error_message: str | None = wire(since=1, default=None, ignorable=True)
    topic_config_error_code: Int16 = wire(since=5, tag=0, default=0, ignorable=True)
    num_partitions: Int32 = wire(since=5, default=-1, ignorable=True)
    replication_factor: Int16 = wire(since=5, default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = wire(since=5, default=(), ignorable=True)


@message(ApiKey.CREATE_TOPICS, versions=range(8))
class CreateTopicsResponse(Struct):
    """The answer for each topic."""

    throttle_time_ms: Int32 = wire(since=2, default=0, ignorable=True)
    topics: tuple[CreatableTopicResult, ...] = ()
