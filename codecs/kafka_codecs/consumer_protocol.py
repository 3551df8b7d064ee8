"""What consumers put into JoinGroup and SyncGroup: Subscription and Assignment, versions 0 to 3.

Each is an int16 version and then the fields of that version, never in the flexible encoding.

- v0: topics and user data. v1 adds the owned partitions (cooperative rebalancing, KIP-429).
- v2 adds the generation those were owned in, v3 the rack. Assignments are the same in all.

As in Kafka, a newer version is read as version 3, bytes that follow are ignored (versions only ever
add fields at the end), and topics and partitions are written in sorted order, so that equal
subscriptions have equal bytes.

DEV D24: a subscription of version 1 that ends where one of version 0 does is whole. kafka-go,
kafkajs 1 and @platformatic/kafka 1 write it: to Kafka it is malformed, and their groups could never
convert.
"""

import struct
from dataclasses import replace
from typing import TypeVar

from kafka_codecs.codec import decode, encode
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.errors import WireError
from kafka_codecs.primitives import Int32

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of classic groups whose members put these into their requests."""

NO_GENERATION = -1
VERSIONS = range(4)


@structure
class TopicPartition(Struct):
    """Partitions of a topic. (The singular is Kafka's.)"""

    topic: str
    partitions: tuple[Int32, ...]


@message(None, versions=VERSIONS)
class Subscription(Struct):
    """What a member wants, and what it owned when it asked."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = wire(since=1, default=(), ignorable=True)
    generation_id: Int32 = wire(since=2, default=NO_GENERATION, ignorable=True)
    rack_id: str | None = wire(since=3, default=None, ignorable=True)


@message(None, versions=VERSIONS)
class Assignment(Struct):
    """What a member is given."""

    assigned_partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


_M = TypeVar("_M", Subscription, Assignment)

_VERSION = struct.Struct(">h")
_FIRST_WITH_OWNED_PARTITIONS = 1


def decode_subscription(data: bytes) -> tuple[int, Subscription]:
    """Decode a subscription; the version is the one that was sent, which may be a newer one.

    Raises `WireError` for a negative version and for malformed or missing bytes.
    """
    try:
        return _decode(Subscription, data)
    except WireError:
        if data[: _VERSION.size] != _VERSION.pack(_FIRST_WITH_OWNED_PARTITIONS):
            raise
        return _FIRST_WITH_OWNED_PARTITIONS, decode(Subscription, data[_VERSION.size :], 0)


def encode_subscription(value: Subscription, version: int) -> bytes:
    """Encode a subscription; the fields that `version` lacks are left out.

    Raises `WireError` for a negative version.
    """
    in_order = replace(
        value,
        topics=tuple(sorted(value.topics)),
        owned_partitions=_sorted(value.owned_partitions),
    )
    return _encode(in_order, version)


def decode_assignment(data: bytes) -> tuple[int, Assignment]:
    """Decode an assignment, as `decode_subscription` does."""
    return _decode(Assignment, data)


def encode_assignment(value: Assignment, version: int) -> bytes:
    """Encode an assignment, as `encode_subscription` does."""
    return _encode(replace(value, assigned_partitions=_sorted(value.assigned_partitions)), version)


def _decode(message_type: type[_M], data: bytes) -> tuple[int, _M]:
    if len(data) < _VERSION.size:
        raise WireError(f"{message_type.__name__}: no version in {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    return version, decode(message_type, data[_VERSION.size :], _spoken(version), trailing_ok=True)


def _encode(value: _M, version: int) -> bytes:
    spoken = _spoken(version)
    return _VERSION.pack(spoken) + encode(value, spoken)


def _spoken(version: int) -> int:
    """The version we speak for another; negative ones stay as they are and are refused."""
    return min(version, VERSIONS[-1])


def _sorted(partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    in_order = [replace(each, partitions=tuple(sorted(each.partitions))) for each in partitions]
    return tuple(sorted(in_order, key=lambda each: each.topic))
