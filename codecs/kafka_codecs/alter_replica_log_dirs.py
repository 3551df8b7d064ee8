"""AlterReplicaLogDirs (key 34), versions 0 to 2; Kafka 4 has dropped version 0.

v1 lets a broker answer before it throttles; v2 is flexible.

Errors, per partition: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE,
CLUSTER_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@structure
class AlterReplicaLogDirTopic(Struct):
    """The partitions of a topic."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[Int32, ...]


@structure
class AlterReplicaLogDir(Struct):
    """A folder of the broker, and the replicas to move there."""

    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]


@message(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=range(3))
class AlterReplicaLogDirsRequest(Struct):
    """Move replicas between the folders of a broker."""

    dirs: tuple[AlterReplicaLogDir, ...]


@structure
class AlterReplicaLogDirPartitionResult(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class AlterReplicaLogDirTopicResult(Struct):
    """The answers for a topic."""

    topic_name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@message(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=range(3))
class AlterReplicaLogDirsResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()
