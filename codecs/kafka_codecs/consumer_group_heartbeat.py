"""ConsumerGroupHeartbeat (key 68), versions 0 and 1, both flexible (KIP-848).

- v1 adds the subscribed regular expression; the client generates its own member id (KIP-1082).

Kafka left out what KIP-848 has for client-side assignors. Here these are tagged fields from
`OUR_TAGS` on, which other clients neither send nor see.

Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
UNSUPPORTED_ASSIGNOR, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, TOPIC_AUTHORIZATION_FAILED,
GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION, INVALID_REGULAR_EXPRESSION (v1+).
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import OUR_TAGS, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32


@structure
class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: UUID
    partitions: tuple[Int32, ...]


@structure
class ClientAssignor(Struct):
    """An assignor that the member can run, and the versions of metadata that it can handle."""

    name: str
    minimum_version: Int16
    maximum_version: Int16
    reason: Int8
    metadata_version: Int16
    metadata_bytes: bytes


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=range(2))
class ConsumerGroupHeartbeatRequest(Struct):
    """A member's sign of life, with the fields that changed; null or -1 means unchanged.

    `member_epoch` is 0 to join, -1 to leave, and -2 for a static member that leaves temporarily.
    """

    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = wire(since=1, default=None)
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None
    client_assignors: tuple[ClientAssignor, ...] | None = wire(tag=OUR_TAGS, default=None)


@structure
class Assignment(Struct):
    """All partitions that the member may own.

    A client-side assignor may add its error, and metadata for the member; null if it has none.
    """

    topic_partitions: tuple[TopicPartitions, ...]
    error: Int8 = wire(tag=OUR_TAGS, default=0)
    metadata_version: Int16 = wire(tag=OUR_TAGS + 1, default=0)
    metadata_bytes: bytes | None = wire(tag=OUR_TAGS + 2, default=None)


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=range(2))
class ConsumerGroupHeartbeatResponse(Struct):
    """The member's epoch and assignment; a null `assignment` means unchanged."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
    should_compute_assignment: bool = wire(tag=OUR_TAGS, default=False)
