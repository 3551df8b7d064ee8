"""The records of the state log: those of Kafka's __consumer_offsets, and groupferry's own.

A key is an int16 record type and the fields of that type, never flexible. A value is an int16
version and the fields of that version, always flexible. Types and fields are those of Kafka 4.3, so
that Kafka's tools can read them. groupferry's additions are tagged fields from `OUR_TAGS` on, which
Kafka skips, and record types from `OUR_TYPES` on, which Kafka ignores.

- Classic groups have version 4 of their record, the first flexible one.
- Kafka added these tagged fields later: the metadata hash (4.1), the session timeout of a classic
  member (4.0), the assignment's timestamp and the epochs of assigned partitions (4.3).

A deleted key has no value (a tombstone); the log's reader handles those.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from uuid import UUID

from kafka_codecs.codec import decode, encode
from kafka_codecs.declaration import OUR_TAGS, Struct, message, structure, wire
from kafka_codecs.errors import WireError
from kafka_codecs.primitives import Int8, Int16, Int32, Int64

OUR_TYPES = 20_000
"""groupferry's first record type."""

TYPES_EACH = 100
"""The most record types of Kafka, numbered from 0, and of groupferry, from `OUR_TYPES`."""

NO_HASH = -1
NO_EPOCH = -1


class RecordType(IntEnum):
    """The type of a record."""

    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
    GROUP_CONFIGS = OUR_TYPES
    LOG_ID = OUR_TYPES + 1
    LOG_OWNER = OUR_TYPES + 2
    LOG_RENEWAL = OUR_TYPES + 3
    LAST_EVENTS = OUR_TYPES + 4
    GROUP_MEMBER_REMOVAL = OUR_TYPES + 5
    GROUP_ADOPTION = OUR_TYPES + 6
    GROUP_RELEASE = OUR_TYPES + 7
    GROUP_GENERATION_BEGUN = OUR_TYPES + 8
    GROUP_SERVED_BY_SETTING = OUR_TYPES + 9
    LOG_SHARD = OUR_TYPES + 10


# -- keys ----------------------------------------------------------------------------------------


@message(None, versions=range(1))
class LogKey(Struct):
    """One record per log."""


@message(None, versions=range(1))
class GroupKey(Struct):
    """One record per group."""

    group_id: str


@message(None, versions=range(1))
class MemberKey(Struct):
    """One record per member."""

    group_id: str
    member_id: str


@message(None, versions=range(1))
class RegularExpressionKey(Struct):
    """One record per regular expression that members subscribe with."""

    group_id: str
    regular_expression: str


# -- values --------------------------------------------------------------------------------------


@structure
class ClassicProtocol(Struct):
    """A protocol that a classic member supports, with its metadata."""

    name: str
    metadata: bytes


@structure
class OfferedProtocol(Struct):
    """A `ClassicProtocol`; null `metadata` stands for the member's `subscription`, stored once."""

    name: str
    metadata: bytes | None


@structure
class GroupMember(Struct):
    """A member of a classic group; `subscription` is its metadata for the group's protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: Int32
    session_timeout: Int32
    subscription: bytes
    assignment: bytes
    protocols: tuple[OfferedProtocol, ...] = wire(tag=OUR_TAGS, default=())
    older_epoch: Int32 = wire(tag=OUR_TAGS + 1, default=NO_EPOCH)


@message(None, versions=range(4, 5), flexible=True)
class GroupMetadataValue(Struct):
    """A classic group; `protocol_type` is empty if it has none."""

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = -1
    members: tuple[GroupMember, ...]
    unwatched_hash: Int64 = wire(tag=OUR_TAGS, default=NO_HASH)


@message(None, versions=range(1), flexible=True)
class GroupMemberRemovalValue(Struct):
    """Why a member left a classic group; Kafka does not store the cause."""

    cause: str


@message(None, versions=range(1), flexible=True)
class GroupGenerationBegunValue(Struct):
    """The generation of a classic group whose members wait for their assignments."""

    generation: Int32


@message(None, versions=range(1), flexible=True)
class GroupAdoptionValue(Struct):
    """A classic group of the cluster that is being adopted; `lock_generation` is -1 until it is
    locked."""

    generation: Int32
    protocol: str | None
    leader: str | None
    members: tuple[GroupMember, ...]
    lock_generation: Int32


@message(None, versions=range(1), flexible=True)
class GroupServedBySettingValue(Struct):
    """Stands for a group that only a setting has the gateway host, and that no operator has
    adopted."""


@message(None, versions=range(1), flexible=True)
class GroupReleaseValue(Struct):
    """A group that goes back to the cluster; without members it has gone. `guard_id` is the member
    id of the gateway's anchor while that leaves, and `is_native_due` says whether a native member
    has to be the first to join then."""

    guard_id: str | None
    is_recalling: bool
    """Whether members may still hold partitions; the other fields describe them."""
    protocol_type: str | None
    generation: Int32
    protocol: str | None
    leader: str | None
    members: tuple[GroupMember, ...]
    is_native_due: bool = wire(tag=OUR_TAGS, default=False)


@message(None, versions=range(1), flexible=True)
class ConsumerGroupMetadataValue(Struct):
    """The group epoch, and why it was written."""

    epoch: Int32
    metadata_hash: Int64 = wire(tag=0, default=0)
    cause: str = wire(tag=OUR_TAGS, default="")


@structure
class ClassicMemberMetadata(Struct):
    """The classic protocol's data of a consumer group's classic member."""

    session_timeout_ms: Int32
    supported_protocols: tuple[ClassicProtocol, ...]


@structure
class ClientAssignor(Struct):
    """An assignor that a member runs itself, as KIP-848 has it; Kafka stores none."""

    name: str
    minimum_version: Int16
    maximum_version: Int16
    reason: Int8
    version: Int16
    metadata: bytes


@message(None, versions=range(1), flexible=True)
class ConsumerGroupMemberMetadataValue(Struct):
    """A consumer group member's description of itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = wire(tag=0, default=None)
    client_assignors: tuple[ClientAssignor, ...] = wire(tag=OUR_TAGS, default=())


@message(None, versions=range(1), flexible=True)
class ConsumerGroupTargetAssignmentMetadataValue(Struct):
    """The target assignment's epoch, its time, and its assignor."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = wire(tag=0, default=0)
    assignor: str | None = wire(tag=OUR_TAGS, default=None)


@structure
class TargetPartitions(Struct):
    """A topic's partitions in a member's target assignment."""

    topic_id: UUID
    partitions: tuple[Int32, ...]


@structure
class AssignmentMetadata(Struct):
    """What a client-side assignor says to a member along with its partitions."""

    version: Int16
    metadata: bytes


@message(None, versions=range(1), flexible=True)
class ConsumerGroupTargetAssignmentMemberValue(Struct):
    """A member's target assignment."""

    topic_partitions: tuple[TargetPartitions, ...]
    metadata: AssignmentMetadata | None = wire(tag=OUR_TAGS, default=None)


@structure
class HeldPartitions(Struct):
    """A topic's partitions that a member owns; each epoch says since when, in the same order."""

    topic_id: UUID
    partitions: tuple[Int32, ...]
    assignment_epochs: tuple[Int32, ...] | None = wire(tag=0, default=None)


@message(None, versions=range(1), flexible=True)
class ConsumerGroupCurrentMemberAssignmentValue(Struct):
    """A member's current assignment, and its progress towards its target."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[HeldPartitions, ...]
    partitions_pending_revocation: tuple[HeldPartitions, ...]


@message(None, versions=range(1), flexible=True)
class ConsumerGroupRegularExpressionValue(Struct):
    """The topics that a regular expression matched."""

    topics: tuple[str, ...]
    version: Int64
    timestamp: Int64


@structure
class GroupConfig(Struct):
    """One config that a group overrides."""

    name: str
    value: Int64


@message(None, versions=range(1), flexible=True)
class GroupConfigsValue(Struct):
    """The group's config overrides; Kafka stores these in its metadata log."""

    configs: tuple[GroupConfig, ...]


@message(None, versions=range(1), flexible=True)
class LastEventsValue(Struct):
    """The sequence number of the group's last event, the times of the event and of the sequence's
    beginning (0 in old records), and the last batch of events.

    Each line is the JSON of one event. Lines are UTF-8 bytes, because one may list more partitions
    than fit into a Kafka string.
    """

    sequence: Int64
    lines: tuple[bytes, ...]
    began: Int64 = wire(tag=0, default=0)
    at: Int64 = wire(tag=1, default=0)


@message(None, versions=range(1), flexible=True)
class LogIdValue(Struct):
    """The log's id, which never changes, and the cluster whose groups it has; null until a cluster
    with an id is met."""

    log_id: str
    cluster_id: str | None = wire(tag=OUR_TAGS, default=None)


@message(None, versions=range(1), flexible=True)
class LogOwnerValue(Struct):
    """The process that owns the log; `host` and `process_id` help people to find it. `run_id` is
    known of a log in shards."""

    owner_id: str
    host: str
    process_id: Int32
    since: Int64
    run_id: Int64 = wire(tag=OUR_TAGS, default=-1)


@message(None, versions=range(1), flexible=True)
class LogRenewalValue(Struct):
    """A write by an idle owner, which renews its claim to the log."""

    owner_id: str


@message(None, versions=range(1), flexible=True)
class LogShardValue(Struct):
    """Which part of the groups the log has, if it is one of several with the same id."""

    shard: Int32
    shards: Int32


GroupsKey = GroupKey | MemberKey | RegularExpressionKey
Key = GroupsKey | LogKey
Value = (
    GroupMetadataValue
    | GroupMemberRemovalValue
    | GroupGenerationBegunValue
    | GroupAdoptionValue
    | GroupReleaseValue
    | GroupServedBySettingValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
    | GroupConfigsValue
    | LastEventsValue
    | LogIdValue
    | LogOwnerValue
    | LogRenewalValue
    | LogShardValue
)

LAYOUTS: Mapping[RecordType, tuple[type[Key], type[Value]]] = MappingProxyType(
    {
        RecordType.GROUP_METADATA: (GroupKey, GroupMetadataValue),
        RecordType.CONSUMER_GROUP_METADATA: (GroupKey, ConsumerGroupMetadataValue),
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: (MemberKey, ConsumerGroupMemberMetadataValue),
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
            GroupKey,
            ConsumerGroupTargetAssignmentMetadataValue,
        ),
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (
            MemberKey,
            ConsumerGroupTargetAssignmentMemberValue,
        ),
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (
            MemberKey,
            ConsumerGroupCurrentMemberAssignmentValue,
        ),
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: (
            RegularExpressionKey,
            ConsumerGroupRegularExpressionValue,
        ),
        RecordType.GROUP_CONFIGS: (GroupKey, GroupConfigsValue),
        RecordType.LAST_EVENTS: (GroupKey, LastEventsValue),
        RecordType.GROUP_MEMBER_REMOVAL: (MemberKey, GroupMemberRemovalValue),
        RecordType.GROUP_GENERATION_BEGUN: (GroupKey, GroupGenerationBegunValue),
        RecordType.GROUP_ADOPTION: (GroupKey, GroupAdoptionValue),
        RecordType.GROUP_RELEASE: (GroupKey, GroupReleaseValue),
        RecordType.GROUP_SERVED_BY_SETTING: (GroupKey, GroupServedBySettingValue),
        RecordType.LOG_ID: (LogKey, LogIdValue),
        RecordType.LOG_OWNER: (LogKey, LogOwnerValue),
        RecordType.LOG_RENEWAL: (LogKey, LogRenewalValue),
        RecordType.LOG_SHARD: (LogKey, LogShardValue),
    }
)
"""The key and value class of each record type."""

_KEY_VERSION = 0
_INT16 = struct.Struct(">h")


def encode_key(record_type: RecordType, key: Key) -> bytes:
    """Encode a key. Raises `WireError` for a value that does not fit."""
    return _INT16.pack(record_type) + encode(key, _KEY_VERSION)


def decode_key(data: bytes) -> tuple[RecordType, Key]:
    """Decode a key. Raises `WireError` for malformed bytes and for an unknown record type."""
    number, fields = _behind_int16(data, "record key")
    try:
        record_type = RecordType(number)
    except ValueError:
        raise WireError(f"record type {number} is not known") from None
    return record_type, decode(LAYOUTS[record_type][0], fields, _KEY_VERSION)


def key_start(record_type: RecordType) -> bytes:
    """What the keys of such records begin with, and no others."""
    return _INT16.pack(record_type)


def is_of_later_groupferry(key: bytes) -> bool:
    """Whether a later groupferry may know a key's type, which this one does not."""
    if len(key) < _INT16.size:
        return False
    (number,) = _INT16.unpack_from(key)
    may_be_a_type = 0 <= number < TYPES_EACH or 0 <= number - OUR_TYPES < TYPES_EACH
    return may_be_a_type and number not in set(RecordType)


def encode_value(value: Value) -> bytes:
    """Encode a value in its newest version. Raises `WireError` for a value that does not fit."""
    version = value.SCHEMA.versions[-1]
    return _INT16.pack(version) + encode(value, version)


def decode_value(record_type: RecordType, data: bytes) -> Value:
    """Decode a value. Raises `WireError` for malformed bytes and for an unknown version."""
    version, fields = _behind_int16(data, "record value")
    return decode(LAYOUTS[record_type][1], fields, version)


def _behind_int16(data: bytes, what: str) -> tuple[int, bytes]:
    if len(data) < _INT16.size:
        raise WireError(f"no {what} in {len(data)} bytes")
    (number,) = _INT16.unpack_from(data)
    return number, data[_INT16.size :]
