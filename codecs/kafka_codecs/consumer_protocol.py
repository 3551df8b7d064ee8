"""The embedded consumer protocol: Subscription in JoinGroup, Assignment in SyncGroup, v0 to v3.

Each is an int16 version followed by that version's fields, never in the flexible encoding.

- v0: topics and user data. v1 adds the owned partitions (cooperative rebalancing, KIP-429).
- v2 adds the generation of the owned partitions, v3 the rack. All versions of Assignment are alike.

Like Kafka, the decoder reads a newer version as version 3 and ignores trailing bytes, because
versions only ever append fields. The encoder sorts topics and partitions, so that equal
subscriptions have equal bytes.

DEV D24: the decoder accepts a subscription of version 1 that ends where version 0 ends. kafka-go,
kafkajs 1 and @platformatic/kafka 1 send it. Kafka considers it malformed, so their groups could
never convert.
"""

import struct
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar

from kafka_codecs.codec import decode, encode
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.errors import WireError
from kafka_codecs.primitives import Int32

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of classic groups whose members use the embedded protocol."""

NO_GENERATION = -1
VERSIONS = range(4)
REMEMBERED_MAX, REMEMBERED_BYTES_MAX = 256, 1024
"""Subscriptions that are remembered decoded, and the longest of them."""


@structure
class TopicPartition(Struct):
    """Partitions of a topic. (The singular name is Kafka's.)"""

    topic: str
    partitions: tuple[Int32, ...]


@message(None, versions=VERSIONS)
class Subscription(Struct):
    """The topics that a member subscribes to, and the partitions that it owned when it joined."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = wire(since=1, default=(), ignorable=True)
    generation_id: Int32 = wire(since=2, default=NO_GENERATION, ignorable=True)
    rack_id: str | None = wire(since=3, default=None, ignorable=True)


@message(None, versions=VERSIONS)
class Assignment(Struct):
    """The partitions that a member receives."""

    assigned_partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


_M = TypeVar("_M", Subscription, Assignment)

_VERSION = struct.Struct(">h")
_FIRST_WITH_OWNED_PARTITIONS = 1


def decode_subscription(data: bytes) -> tuple[int, Subscription]:
    """Decode a subscription; the returned version is the one sent, which may be newer than v3.

    Raises `WireError` for a negative version and for malformed or missing bytes.
    """
    # Most members of a group send the same one, and several rules read it.
    read = _remembered if len(data) <= REMEMBERED_BYTES_MAX else _decode_subscription
    return read(data)


def _decode_subscription(data: bytes) -> tuple[int, Subscription]:
    try:
        return _decode(Subscription, data)
    except WireError:
        if data[: _VERSION.size] != _VERSION.pack(_FIRST_WITH_OWNED_PARTITIONS):
            raise
        return _FIRST_WITH_OWNED_PARTITIONS, decode(Subscription, data[_VERSION.size :], 0)


_remembered = lru_cache(REMEMBERED_MAX)(_decode_subscription)


def encode_subscription(value: Subscription, version: int) -> bytes:
    """Encode a subscription; fields that `version` lacks are omitted.

    Raises `WireError` for a negative version.
    """
    in_order = replace(
        value,
        topics=tuple(sorted(value.topics)),
        owned_partitions=_sort_partitions(value.owned_partitions),
    )
    return _encode(in_order, version)


def decode_assignment(data: bytes) -> tuple[int, Assignment]:
    """Decode an assignment, as `decode_subscription` does."""
    return _decode(Assignment, data)


def encode_assignment(value: Assignment, version: int) -> bytes:
    """Encode an assignment, as `encode_subscription` does."""
    return _encode(
        replace(value, assigned_partitions=_sort_partitions(value.assigned_partitions)), version
    )


def _decode(message_type: type[_M], data: bytes) -> tuple[int, _M]:
    if len(data) < _VERSION.size:
        raise WireError(f"{message_type.__name__}: no version in {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    return version, decode(
        message_type, data[_VERSION.size :], _supported_version(version), trailing_ok=True
    )


def _encode(value: _M, version: int) -> bytes:
    known_version = _supported_version(version)
    return _VERSION.pack(known_version) + encode(value, known_version)


def _supported_version(version: int) -> int:
    """The newest version we know that is not above `version`; `encode` refuses a negative one."""
    return min(version, VERSIONS[-1])


def _sort_partitions(partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    in_order = []
    for topic in partitions:
        numbers = tuple(sorted(topic.partitions))
        in_order.append(
            topic if numbers == topic.partitions else replace(topic, partitions=numbers)
        )
    return tuple(sorted(in_order, key=attrgetter("topic")))
