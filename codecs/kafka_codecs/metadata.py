"""Metadata (key 3), versions 0 to 13.

- v0: an empty list of topics requests all topics; from v1 on null does, and empty requests none.
- v1 adds rack, controller id and whether a topic is internal.
- v2 adds the cluster id, v3 the throttle time.
- v4 adds allow_auto_topic_creation (in earlier versions brokers create requested topics).
- v5 adds the offline replicas; v6 lets a broker answer before it throttles.
- v7 adds the leader epoch; v8 the authorized operations; v9 is flexible.
- v10 adds topic ids to request and response, v11 drops the cluster's authorized operations
  (DescribeCluster has them, KIP-700), v12 makes look-ups by topic id work (the name is null).
- v13 adds the top-level error code.

Errors, per topic: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, INVALID_TOPIC_EXCEPTION,
TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, INVALID_REQUEST; per
partition: LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND, REPLICA_NOT_AVAILABLE; top-level (v13):
REBOOTSTRAP_REQUIRED.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Encoded, Int16, Int32

NO_TOPIC_ID = UUID(int=0)
AUTHORIZED_OPERATIONS_OMITTED = -(2**31)


@structure
class MetadataRequestTopic(Struct):
    """A topic by its name or, from v12 on, by its id."""

    topic_id: UUID = wire(since=10, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    name: str | None = wire(nullable_since=10, entity=Entity.TOPIC)


@message(ApiKey.METADATA, versions=range(14))
class MetadataRequest(Struct):
    """Request brokers and topics; null `topics` requests all of them (v1+)."""

    topics: tuple[MetadataRequestTopic, ...] | None = wire(nullable_since=1)
    allow_auto_topic_creation: bool = wire(since=4, default=True)
    include_cluster_authorized_operations: bool = wire(since=8, until=10, default=False)
    include_topic_authorized_operations: bool = wire(since=8, default=False)


@structure
class MetadataResponseBroker(Struct):
    """A broker and its address."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = wire(since=1, default=None, ignorable=True)


@structure
class MetadataResponsePartition(Struct):
    """A partition, its leader (-1 for none) and its replicas."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = wire(since=7, default=-1, ignorable=True)
    replica_nodes: tuple[Int32, ...]
    isr_nodes: tuple[Int32, ...]
    offline_replicas: tuple[Int32, ...] = wire(since=5, default=(), ignorable=True)


@structure
class MetadataResponseTopic(Struct):
    """A topic; its name is null if the request had an unknown id."""

    error_code: Int16 = 0
    name: str | None = wire(nullable_since=12, entity=Entity.TOPIC)
    topic_id: UUID = wire(since=10, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    is_internal: bool = wire(since=1, default=False, ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = wire(since=8, default=AUTHORIZED_OPERATIONS_OMITTED)


@message(ApiKey.METADATA, versions=range(14))
class MetadataResponse(Struct):
    """Brokers and topics."""

    throttle_time_ms: Int32 = wire(since=3, default=0, ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = wire(since=2, default=None, ignorable=True)
    controller_id: Int32 = wire(since=1, default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Int32 = wire(
        since=8, until=10, default=AUTHORIZED_OPERATIONS_OMITTED
    )
    error_code: Int16 = wire(since=13, default=0, ignorable=True)


@structure
class RelayedTopic(MetadataResponseTopic):
    """A topic for a relay, which reads no partition."""

    partitions: Encoded[tuple[MetadataResponsePartition, ...]]  # type: ignore[assignment]


@message(ApiKey.METADATA, versions=range(14))
class RelayedMetadataResponse(MetadataResponse):
    """Brokers and topics for a relay: five times as fast to read and write with many partitions."""

    topics: tuple[RelayedTopic, ...] = ()
