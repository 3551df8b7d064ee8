"""ShareGroupHeartbeat (key 76), version 1, flexible (KIP-932).

Version 0 was tried out in Kafka 4.0, and is in no release since.

Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_MEMBER_ID,
GROUP_MAX_SIZE_REACHED, GROUP_ID_NOT_FOUND.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@message(ApiKey.SHARE_GROUP_HEARTBEAT, versions=range(1, 2))
class ShareGroupHeartbeatRequest(Struct):
    """A member's sign of life; null means unchanged. `member_epoch` is 0 to join, -1 to leave."""

    group_id: str
    member_id: str
    member_epoch: Int32
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = wire(default=None, entity=Entity.TOPIC)


@structure
class Assignment(Struct):
    """All partitions that the member reads, as other members do."""

    topic_partitions: tuple[TopicPartitions, ...]


@message(ApiKey.SHARE_GROUP_HEARTBEAT, versions=range(1, 2))
class ShareGroupHeartbeatResponse(Struct):
    """The member's epoch and assignment; a null `assignment` means unchanged."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
