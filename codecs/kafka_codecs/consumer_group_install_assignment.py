"""ConsumerGroupInstallAssignment, version 0, flexible (KIP-848; no Kafka has it).

Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (also for a
member that was not chosen), STALE_MEMBER_EPOCH, INVALID_ASSIGNMENT.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int8, Int16, Int32


@structure
class Member(Struct):
    """What a member is to own, and what the assignor says to it."""

    member_id: str
    partitions: tuple[TopicPartitions, ...]
    metadata_version: Int16
    metadata_bytes: bytes


@message(ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT, versions=range(1))
class ConsumerGroupInstallAssignmentRequest(Struct):
    """The assignment that the chosen member computed, or its assignor's error (0 if none).

    `group_epoch` is that of the answer to its ConsumerGroupPrepareAssignment.
    """

    group_id: str
    member_id: str
    member_epoch: Int32
    group_epoch: Int32
    error: Int8 = 0
    members: tuple[Member, ...] = ()


@message(ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT, versions=range(1))
class ConsumerGroupInstallAssignmentResponse(Struct):
    """Whether the assignment was installed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
