"""DescribeLogDirs (key 35), versions 0 to 5; Kafka 4 has dropped version 0.

- v1 lets a broker answer before it throttles.
- v2 is flexible; v3 adds the top-level error; v4 adds the sizes of the volume (KIP-827).
- v5 says whether a folder takes no new partitions (KIP-1066).

Errors, top-level: CLUSTER_AUTHORIZATION_FAILED (v3+); per folder: KAFKA_STORAGE_ERROR.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class DescribableLogDirTopic(Struct):
    """The partitions of a topic."""

    topic: str = wire(entity=Entity.TOPIC)
    partitions: tuple[Int32, ...]


@message(ApiKey.DESCRIBE_LOG_DIRS, versions=range(6))
class DescribeLogDirsRequest(Struct):
    """Describe the folders of a broker; null `topics` means all topics."""

    topics: tuple[DescribableLogDirTopic, ...] | None


@structure
class DescribeLogDirsPartition(Struct):
    """The size of a replica."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: bool


@structure
class DescribeLogDirsTopic(Struct):
    """The replicas of a topic in a folder."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[DescribeLogDirsPartition, ...]


@structure
class DescribeLogDirsResult(Struct):
    """A folder and the replicas in it."""

    error_code: Int16 = 0
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: Int64 = wire(since=4, default=-1, ignorable=True)
    usable_bytes: Int64 = wire(since=4, default=-1, ignorable=True)
    is_cordoned: bool = wire(since=5, default=False, ignorable=True)


@message(ApiKey.DESCRIBE_LOG_DIRS, versions=range(6))
class DescribeLogDirsResponse(Struct):
    """The folders of the broker."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = wire(since=3, default=0, ignorable=True)
    results: tuple[DescribeLogDirsResult, ...] = ()
