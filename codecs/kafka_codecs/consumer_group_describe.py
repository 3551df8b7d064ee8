"""ConsumerGroupDescribe (key 69), versions 0 and 1, both flexible (KIP-848).

- v1 adds the member type (KIP-1099).

Errors, per group: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND,
TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION.
"""

from enum import IntEnum
from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.metadata import AUTHORIZED_OPERATIONS_OMITTED
from kafka_codecs.primitives import Int8, Int16, Int32


class MemberType(IntEnum):
    """The protocol that a member speaks (`member_type`)."""

    UNKNOWN = -1
    CLASSIC = 0
    CONSUMER = 1


@message(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=range(2))
class ConsumerGroupDescribeRequest(Struct):
    """Describe groups of the consumer protocol."""

    group_ids: tuple[str, ...]
    include_authorized_operations: bool


@structure
class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: UUID = wire(entity=Entity.TOPIC_ID)
    topic_name: str = wire(entity=Entity.TOPIC)
    partitions: tuple[Int32, ...]


@structure
class Assignment(Struct):
    """Partitions of a member."""

    topic_partitions: tuple[TopicPartitions, ...]


@structure
class Member(Struct):
    """A member with its current and its target assignment."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = wire(since=1, default=MemberType.UNKNOWN, ignorable=True)


@structure
class DescribedGroup(Struct):
    """A group; after an error only its id is filled in."""

    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@message(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=range(2))
class ConsumerGroupDescribeResponse(Struct):
    """One entry per requested group."""

    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()
