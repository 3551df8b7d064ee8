"""Topics, partitions and embedded bytes in a short notation for scenarios."""

from collections.abc import Iterable, Mapping
from uuid import UUID, uuid5

from coordinator.interface.topics import Partition, Topic, Topics
from kafka_codecs.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)

NAMESPACE = UUID("0a1b2c3d-0000-4000-8000-000000000000")
Owned = Mapping[str, Iterable[int]]


def topic_id(name: str) -> UUID:
    """A stable id for a topic name."""
    return uuid5(NAMESPACE, name)


def make_topics(version: int = 1, names_version: int = 1, **partition_counts: int) -> Topics:
    """A topic image from partition counts by topic name."""
    return Topics(
        {
            name: Topic(name=name, topic_id=topic_id(name), partition_count=count)
            for name, count in partition_counts.items()
        },
        version=version,
        names_version=names_version,
    )


def partitions(owned: Owned) -> frozenset[Partition]:
    """Partitions from topic names and numbers."""
    return frozenset(
        Partition(topic_id(name), n) for name, numbers in owned.items() for n in numbers
    )


def subscription(
    topics: Iterable[str],
    *,
    owned: Owned | None = None,
    generation: int = -1,
    rack_id: str | None = None,
    user_data: bytes | None = None,
    version: int = 1,
) -> bytes:
    """The embedded subscription of a classic member."""
    listed = tuple(
        TopicPartition(topic=name, partitions=tuple(numbers))
        for name, numbers in (owned or {}).items()
    )
    value = Subscription(
        topics=tuple(topics),
        user_data=user_data,
        owned_partitions=listed,
        generation_id=generation,
        rack_id=rack_id,
    )
    return encode_subscription(value, version)


def embedded_assignment(owned: Owned, *, user_data: bytes | None = None) -> bytes:
    """The embedded assignment that a leader makes."""
    listed = tuple(
        TopicPartition(topic=name, partitions=tuple(numbers)) for name, numbers in owned.items()
    )
    return encode_assignment(Assignment(assigned_partitions=listed, user_data=user_data), 1)


def read_assignment(data: bytes) -> dict[str, tuple[int, ...]]:
    """The partitions in a SyncGroup answer."""
    _version, decoded = decode_assignment(data)
    return {partition.topic: partition.partitions for partition in decoded.assigned_partitions}
