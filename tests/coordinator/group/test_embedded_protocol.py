"""Conversion of the embedded consumer protocol."""

import pytest

from coordinator.group.embedded_protocol import (
    owned_partitions,
    read_stored_assignment,
    read_subscription,
    user_data_in,
    version_of,
    write_assignment,
)
from coordinator.interface.errors import GroupError
from kafka_codecs.consumer_protocol import Subscription, TopicPartition, encode_subscription
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_script import (
    embedded_assignment,
    make_topics,
    partitions,
    read_assignment,
    subscription,
)

TOPICS = make_topics(foo=3)


@pytest.mark.parametrize(
    ("metadata", "user_data"),
    [
        (encode_subscription(Subscription(topics=("foo",), user_data=b"to it"), 1), b"to it"),
        (encode_subscription(Subscription(topics=("foo",), user_data=None), 1), b""),
        (b"unreadable", b""),
    ],
)
def test_what_a_subscription_says_to_the_assignor(metadata: bytes, user_data: bytes) -> None:
    assert user_data_in(metadata) == user_data


@pytest.mark.parametrize("user_data", [None, b""])
def test_an_assignment_without_user_data_is_read(user_data: bytes | None) -> None:
    """User data may be null or empty (rule 4.2)."""
    assignment = embedded_assignment({"foo": [0, 2]}, user_data=user_data)

    assert read_stored_assignment(assignment, TOPICS, protocol="range") == partitions(
        {"foo": [0, 2]}
    )


def test_a_custom_assignors_user_data_is_refused() -> None:
    """Even one byte would be lost (KAFKA-18134)."""
    assignment = embedded_assignment({"foo": [0]}, user_data=b"\0")

    with pytest.raises(GroupError, match="custom assignor") as refusal:
        read_stored_assignment(assignment, TOPICS, protocol="range")

    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("protocol", ["sticky", "cooperative-sticky"])
def test_user_data_of_a_sticky_assignor_is_accepted(protocol: str) -> None:
    """DEV D23: librdkafka's leader copies each member's sticky data into its assignment."""
    assignment = embedded_assignment({"foo": [1]}, user_data=b"\0\0\0\1\0\1t")

    assert read_stored_assignment(assignment, TOPICS, protocol=protocol) == partitions({"foo": [1]})


def test_zero_bytes_are_no_partitions() -> None:
    """A member that never synced has no assignment (rule 4.2)."""
    assert read_stored_assignment(b"", TOPICS, protocol="range") == frozenset()


def test_unknown_topics_are_dropped() -> None:
    """The partitions of a deleted topic are dropped (scenario 15)."""
    assignment = embedded_assignment({"foo": [0], "gone": [1]})

    assert read_stored_assignment(assignment, TOPICS, protocol="range") == partitions({"foo": [0]})


def test_garbage_is_refused_with_the_callers_code() -> None:
    """The same bytes cause INCONSISTENT_GROUP_PROTOCOL in a JoinGroup and GROUP_ID_NOT_FOUND in a
    conversion (rules 4.2, 5.2)."""
    for code in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_ID_NOT_FOUND):
        with pytest.raises(GroupError, match="malformed") as refusal:
            read_subscription(b"\0", refuse_with=code)
        assert refusal.value.code is code


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_of_any_version_is_read(version: int) -> None:
    """No minimum version is required (rule 4.2)."""
    metadata = subscription(["foo"], version=version)

    read_version, read = read_subscription(metadata, refuse_with=ErrorCode.GROUP_ID_NOT_FOUND)

    assert (read_version, read.topics) == (version, ("foo",))


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_starts_with_the_members_version_and_is_never_zero_bytes(
    version: int,
) -> None:
    """An empty assignment is a version and two empty fields (rule 5.6)."""
    written = write_assignment((), version, TOPICS)

    assert written[:2] == version.to_bytes(2)
    assert read_assignment(written) == {}


@pytest.mark.parametrize(
    ("metadata", "version"),
    [
        (subscription(["foo"], version=0), 0),
        (subscription(["foo"], version=3), 3),
        (b"\x00\x02 and junk", 2),
        (b"\x7f\xff", 3),
        (b"\xff\xff", 0),
        (b"\x00", 0),
        (b"\x01", 0),
        (b"", 0),
    ],
)
def test_any_bytes_have_a_version(metadata: bytes, version: int) -> None:
    """Unreadable bytes count as the oldest version, because a timer cannot refuse them."""
    assert version_of(metadata) == version


def test_owned_partitions_of_unknown_topics_are_dropped() -> None:
    """Names to ids (rule 5.4)."""
    listed = [
        TopicPartition(topic="foo", partitions=(1, 2)),
        TopicPartition(topic="gone", partitions=(0,)),
    ]

    assert owned_partitions(listed, TOPICS) == partitions({"foo": [1, 2]})
