"""What consumers put into JoinGroup and SyncGroup: Subscription and Assignment, versions 0 to 3.

Each is an int16 version and then the fields of that version, never in the flexible encoding.

- v0: topics and user data. v1 adds the owned partitions (cooperative rebalancing, KIP-429).
- v2 adds the generation those were owned in, v3 the rack. Assignments are the same in all.

A newer version is read as version 3 and what follows is ignored: versions only ever add fields at
the end. So does Kafka, and so does it write topics and partitions in sorted order, so that equal
subscriptions have equal bytes.
"""

from dataclasses import replace
from io import BytesIO
from typing import TypeVar

from construct import IntegerError

from kafka_codecs.codec import decode, encode
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.errors import WireError
from kafka_codecs.primitives import INT16, Int32

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
