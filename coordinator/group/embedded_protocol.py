"""Converts the embedded consumer protocol inside JoinGroup and SyncGroup to the engine's types.

All versions are accepted, and user data in a subscription is ignored (rules 4.2, 5.2).
"""

from collections.abc import Iterable

from coordinator.interface.errors import GroupError
from coordinator.interface.records import COOPERATIVE_STICKY
from coordinator.interface.topics import Partition, Topics
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    VERSIONS,
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafka_codecs.error_codes import ErrorCode

STICKY_PROTOCOLS = frozenset({"sticky", COOPERATIVE_STICKY})


def read_subscription(metadata: bytes, *, refuse_with: ErrorCode) -> tuple[int, Subscription]:
    """The version and the subscription. Raises GroupError with the given code if malformed."""
    try:
        return decode_subscription(metadata)
    except WireError as broken:
        raise GroupError(
            refuse_with, f"the embedded consumer protocol is malformed: {broken}"
        ) from broken


def version_of(metadata: bytes) -> int:
    """The version of a member's subscription, which the member can therefore read.

    Unreadable bytes count as the oldest version. They may belong to a protocol that was never
    selected, so they are no reason to fail.
    """
    version = int.from_bytes(metadata[:2], signed=True) if len(metadata) > 1 else 0
    return min(max(version, VERSIONS[0]), VERSIONS[-1])


def user_data_in(metadata: bytes) -> bytes:
    """What a subscription says to the assignor; nothing if it is unreadable (see `version_of`)."""
    try:
        return decode_subscription(metadata)[1].user_data or b""
    except WireError:
        return b""


def read_stored_assignment(
    assignment: bytes, topics: Topics, *, protocol: str | None
) -> frozenset[Partition]:
    """Like `list_stored_assignment`, with ids for names."""
    return owned_partitions(list_stored_assignment(assignment, protocol=protocol), topics)


def list_stored_assignment(
    assignment: bytes, *, protocol: str | None
) -> tuple[TopicPartition, ...]:
    """The partitions that a leader assigned to a member; none for zero bytes, if it never synced.

    Raises GroupError GROUP_ID_NOT_FOUND if the bytes are malformed, or contain data of a custom
    assignor that a conversion would lose (KAFKA-18134).

    DEV D23: data of the sticky assignors is accepted, which Kafka refuses. It says who had which
    partition, and the engine knows that. librdkafka's leader copies it into assignments, so none of
    its groups could convert after the second generation.
    """
    decoded = read_assignment(assignment)
    if decoded.user_data and protocol not in STICKY_PROTOCOLS:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            "a custom assignor of the classic members keeps user data in the assignment",
        )
    return decoded.assigned_partitions


def read_assignment(assignment: bytes) -> Assignment:
    """What a leader assigned to a member; nothing for zero bytes, if it never synced.

    Raises GroupError GROUP_ID_NOT_FOUND if the bytes are malformed.
    """
    if not assignment:
        return Assignment(assigned_partitions=())
    try:
        return decode_assignment(assignment)[1]
    except WireError as broken:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"the embedded consumer protocol is malformed: {broken}",
        ) from broken


def owned_partitions(listed: Iterable[TopicPartition], topics: Topics) -> frozenset[Partition]:
    """Names to ids; topics that the cluster does not know are dropped."""
    return topics.partitions((topic.topic, topic.partitions) for topic in listed)


def write_subscription(topic_names: Iterable[str], version: int) -> bytes:
    """The bytes of a subscription to these topics."""
    return encode_subscription(Subscription(topics=tuple(topic_names)), version)


def write_assignment(
    partitions: Iterable[Partition], version: int, topics: Topics, user_data: bytes | None = None
) -> bytes:
    """The bytes of an assignment for a classic member; never zero bytes, even if it is empty."""
    listed = tuple(
        TopicPartition(topic=name, partitions=numbers)
        for name, numbers in topics.names(partitions).items()
    )
    return encode_assignment(Assignment(assigned_partitions=listed, user_data=user_data), version)
