"""AlterReplicaLogDirs (key 34), the response only, versions 1 and 2.

Requests are relayed, not read. v2 is flexible.

Errors, per partition: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE,
CLUSTER_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int16, Int32


@structure
class AlterReplicaLogDirPartitionResult(Struct):
    """The answer for a partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class AlterReplicaLogDirTopicResult(Struct):
    """The answers for a topic."""

    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@message(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=range(1, 3))
class AlterReplicaLogDirsResponse(Struct):
    """The answer for each partition."""

    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()
