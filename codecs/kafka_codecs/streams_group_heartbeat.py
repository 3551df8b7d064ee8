"""StreamsGroupHeartbeat (key 88), versions 0 and 1, both flexible (KIP-1071).

- v1 widens the acceptable lag, and asks for a description of the topology.

Endpoints are those of the application's instances, for queries, and none of a broker.

Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_MEMBER_ID,
FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, GROUP_ID_NOT_FOUND,
STREAMS_INVALID_TOPOLOGY, STREAMS_INVALID_TOPOLOGY_EPOCH, STREAMS_TOPOLOGY_FENCED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32, Int64, UInt16


@structure
class KeyValue(Struct):
    """A config of a topic, or a tag of an instance."""

    key: str
    value: str


@structure
class TopicInfo(Struct):
    """A topic that the application owns, as it should be; 0 where the broker chooses."""

    name: str = wire(entity=Entity.TOPIC)
    partitions: Int32
    replication_factor: Int16
    topic_configs: tuple[KeyValue, ...]


@structure
class CopartitionGroup(Struct):
    """Topics that need equal partitions, by their places in the lists of the subtopology."""

    source_topics: tuple[Int16, ...]
    source_topic_regex: tuple[Int16, ...]
    repartition_source_topics: tuple[Int16, ...]


@structure
class Subtopology(Struct):
    """A connected part of the topology, with its topics."""

    subtopology_id: str
    source_topics: tuple[str, ...] = wire(entity=Entity.TOPIC)
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[str, ...] = wire(entity=Entity.TOPIC)
    repartition_source_topics: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


@structure
class Topology(Struct):
    """What the application does."""

    epoch: Int32
    subtopologies: tuple[Subtopology, ...]


@structure
class TaskIds(Struct):
    """Tasks of a subtopology, by partition."""

    subtopology_id: str
    partitions: tuple[Int32, ...]


@structure
class Endpoint(Struct):
    """Where an instance of the application answers queries."""

    host: str
    port: UInt16


@structure
class TaskOffset(Struct):
    """How far a task's state is."""

    subtopology_id: str
    partition: Int32
    offset: Int64


@message(ApiKey.STREAMS_GROUP_HEARTBEAT, versions=range(2))
class StreamsGroupHeartbeatRequest(Struct):
    """A member's sign of life, with the fields that changed; null or -1 means unchanged.

    `member_epoch` is 0 to join, -1 to leave, and -2 for a static member that leaves temporarily.
    """

    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: bool = False


@structure
class Status(Struct):
    """A reason why the group cannot do its work."""

    status_code: Int8
    status_detail: str


@structure
class TopicPartition(Struct):
    """Partitions of a topic."""

    topic: str
    partitions: tuple[Int32, ...]


@structure
class EndpointToPartitions(Struct):
    """What an instance of the application can be asked about."""

    user_endpoint: Endpoint
    active_partitions: tuple[TopicPartition, ...]
    standby_partitions: tuple[TopicPartition, ...]


@message(ApiKey.STREAMS_GROUP_HEARTBEAT, versions=range(2))
class StreamsGroupHeartbeatResponse(Struct):
    """The member's epoch and tasks; null tasks mean unchanged."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Int32 = wire(until=0, default=0)
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int64 = wire(since=1, default=-1, ignorable=True)
    status: tuple[Status, ...] | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    topology_description_required: bool = wire(since=1, default=False)
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None
