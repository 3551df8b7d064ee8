"""CreatePartitions (key 37), versions 0 to 3.

v1 lets a broker answer before it throttles; v2 is flexible; v3 may exceed a quota (KIP-599).

Errors, per topic: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION,
INVALID_TOPIC_EXCEPTION, REASSIGNMENT_IN_PROGRESS, NOT_CONTROLLER, TOPIC_AUTHORIZATION_FAILED,
REQUEST_TIMED_OUT, THROTTLING_QUOTA_EXCEEDED (v3+).
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@structure
class CreatePartitionsAssignment(Struct):
    """The brokers that will host one new partition."""

    broker_ids: tuple[Int32, ...]


@structure
class CreatePartitionsTopic(Struct):
    """A topic, and the number of partitions that it will have; null assignments mean any
    brokers."""

    name: str = wire(entity=Entity.TOPIC)
    count: Int32
    assignments: tuple[CreatePartitionsAssignment, ...] | None


@message(ApiKey.CREATE_PARTITIONS, versions=range(4))
class CreatePartitionsRequest(Struct):
    """Add partitions to topics, or only check that they could be added."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: Int32
    validate_only: bool


@structure
class CreatePartitionsTopicResult(Struct):
    """The answer for a topic."""

    name: str = wire(entity=Entity.TOPIC)
    error_code: Int16 = 0
    error_message: str | None = None


@message(ApiKey.CREATE_PARTITIONS, versions=range(4))
class CreatePartitionsResponse(Struct):
    """The answer for each topic."""

    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()
