"""ConsumerGroupPrepareAssignment, version 0, flexible (KIP-848; no Kafka has it).

Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (also for a
member that was not chosen), STALE_MEMBER_EPOCH.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int8, Int16, Int32


@message(ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT, versions=range(1))
class ConsumerGroupPrepareAssignmentRequest(Struct):
    """The chosen member asks what to compute the assignment from."""

    group_id: str
    member_id: str
    member_epoch: Int32


@structure
class Assignor(Struct):
    """What a member says to the selected assignor; version -1 is a classic member's user data."""

    reason: Int8
    metadata_version: Int16
    metadata_bytes: bytes


@structure
class Member(Struct):
    """A member, with its target so far."""

    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    subscribed_topic_ids: tuple[UUID, ...]
    assignor: Assignor
    topic_partitions: tuple[TopicPartitions, ...]


@structure
class TopicMetadata(Struct):
    """A subscribed topic."""

    topic_id: UUID
    topic_name: str
    num_partitions: Int32


@message(ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT, versions=range(1))
class ConsumerGroupPrepareAssignmentResponse(Struct):
    """The group as it is now. The install request names its `group_epoch`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    group_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    topics: tuple[TopicMetadata, ...] = ()
