"""OffsetDelete of a hosted group: gateway or cluster answers each partition once."""

from uuid import UUID

import pytest

from coordinator.interface.topics import Topic, Topics
from gateway.requests.offset_delete import answered_here, deletable, exists, refuse_partitions
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponseTopic,
)

IMAGE = Topics({"foo": Topic(name="foo", topic_id=UUID(int=1), partition_count=3)})


def topic(name: str, *numbers: int) -> OffsetDeleteRequestTopic:
    """One topic of a request."""
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=number) for number in numbers)
    return OffsetDeleteRequestTopic(name=name, partitions=partitions)


def request(*topics: OffsetDeleteRequestTopic) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(group_id="g", topics=topics)


def codes(*topics: OffsetDeleteResponseTopic) -> dict[tuple[str, int], int]:
    """The answer for each partition."""
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in topics
        for partition in topic.partitions
    }


def test_a_partition_is_kept_or_left_to_the_cluster() -> None:
    """Members subscribe to foo-1 and to all partitions of bar."""
    asked = request(topic("foo", 0, 1), topic("bar", 0, 1), topic("baz", 2))

    def stays(name: str, index: int) -> bool:
        return name == "bar" or (name, index) == ("foo", 1)

    assert deletable(asked, stays) == (topic("foo", 0), topic("baz", 2))
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert codes(*refuse_partitions(asked, stays, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)) == {
        ("foo", 1): subscribed,
        ("bar", 0): subscribed,
        ("bar", 1): subscribed,
    }


def test_a_topic_without_remaining_partitions_is_omitted() -> None:
    """The cluster would return an empty list for it."""
    asked = request(topic("foo", 0), topic("empty"))
    assert deletable(asked, lambda _name, _index: True) == ()
    assert refuse_partitions(asked, lambda _name, _index: False, ErrorCode.NONE) == ()


def test_only_existing_partitions_have_the_groups_error() -> None:
    """Nonexistent ones have UNKNOWN_TOPIC_OR_PARTITION in any case."""
    topics = (topic("foo", 0, 2, 3, -1), topic("nowhere", 0))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(*answered_here(topics, IMAGE, ErrorCode.NONE)) == {
        ("foo", 0): ErrorCode.NONE,
        ("foo", 2): ErrorCode.NONE,
        ("foo", 3): unknown,
        ("foo", -1): unknown,
        ("nowhere", 0): unknown,
    }


@pytest.mark.parametrize(
    ("name", "index", "is_there"),
    [("foo", 0, True), ("foo", 2, True), ("foo", 3, False), ("foo", -1, False), ("bar", 0, False)],
)
def test_partition_numbers_start_at_zero(name: str, index: int, *, is_there: bool) -> None:
    """The numbers end before the topic's partition count."""
    assert exists(IMAGE, name, index) is is_there
