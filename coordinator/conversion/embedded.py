"""The embedded consumer protocol inside JoinGroup and SyncGroup, in the engine's own terms.

Any version from 0 on is fine, and user data in a subscription is ignored (rules 4.2, 5.2).
"""

from collections.abc import Iterable

from coordinator.errors import GroupError
from coordinator.topics import Partition, Topics
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    VERSIONS,
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kafka_codecs.error_codes import ErrorCode

STICKY_PROTOCOLS = frozenset({"sticky", "cooperative-sticky"})


def read_subscription(metadata: bytes, *, refuse_with: ErrorCode) -> tuple[int, Subscription]:
    """The version and the subscription. Raises GroupError with the given code if malformed."""
    try:
        return decode_subscription(metadata)
    except WireError as broken:
        raise GroupError(
            refuse_with, f"the embedded consumer protocol is malformed: {broken}"
        ) from broken


def version_of(metadata: bytes) -> int:
    """The version a member writes its subscription in, hence can read.

    Bytes that say nothing we know count as the oldest version: they may belong to a protocol
    that was never selected, and are no reason to fail.
    """
    version = int.from_bytes(metadata[:2], signed=True) if len(metadata) > 1 else 0
    return min(max(version, VERSIONS[0]), VERSIONS[-1])


def read_stored_assignment(
    assignment: bytes, topics: Topics, *, protocol: str | None
) -> frozenset[Partition]:
    """What a leader gave a member; zero bytes mean nothing (the member never synced).

    Raises GroupError GROUP_ID_NOT_FOUND if malformed, or made by an assignor that keeps data of
    its own in it, which would be lost (KAFKA-18134).

    DEV D23: not so for the sticky assignors, where Kafka refuses as well. What they keep is who had
    which partition, and the engine knows that; librdkafka's leader copies it into assignments, so
    that none of its groups could ever convert after its second generation.
    """
    if not assignment:
        return frozenset()
    try:
        _version, decoded = decode_assignment(assignment)
    except WireError as broken:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"the embedded consumer protocol is malformed: {broken}",
        ) from broken
    if decoded.user_data and protocol not in STICKY_PROTOCOLS:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            "a custom assignor of the classic members keeps user data in the assignment",
        )
    return owned_partitions(decoded.assigned_partitions, topics)


def owned_partitions(listed: Iterable[TopicPartition], topics: Topics) -> frozenset[Partition]:
    """Names to ids; topics that the cluster does not know are dropped."""
    return topics.partitions((each.topic, each.partitions) for each in listed)


def write_assignment(partitions: Iterable[Partition], version: int, topics: Topics) -> bytes:
    """An assignment as a classic member reads it; never zero bytes, even if it is empty."""
    listed = tuple(
        TopicPartition(topic=name, partitions=numbers)
        for name, numbers in topics.names(partitions).items()
    )
    return encode_assignment(Assignment(assigned_partitions=listed), version)
