"""The cost of a request, measured by its entries."""

from uuid import UUID

import pytest

from gateway.data_path.entries import bytes_of, entries_of
from kafka_codecs import encode
from kafka_codecs.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.support.operations import counted_steps

TOPIC = OffsetFetchRequestTopic(name="t", partition_indexes=(0, 1, 2))


@pytest.mark.parametrize(
    ("message", "entries"),
    [
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0),
        (DescribeGroupsRequest(groups=("a", "b")), 2),
        (
            OffsetFetchRequest(
                groups=(
                    OffsetFetchRequestGroup(group_id="g", topics=(TOPIC, TOPIC)),
                    OffsetFetchRequestGroup(group_id="h", topics=None),
                )
            ),
            2 + 2 + 2 * 3,
        ),
    ],
)
def test_nested_entries_count(message: Struct, entries: int) -> None:
    """Groups, their topics, and the partitions of those."""
    assert entries_of(message) == entries


def test_the_length_of_a_message_is_estimated_before_encoding() -> None:
    """The estimate holds for many entries as well as for few long ones."""
    many = DescribeGroupsRequest(groups=tuple(f"group-{number:05}" for number in range(1_000)))
    long = DescribeGroupsRequest(groups=("g" * 30_000,))
    for message in (many, long):
        encoded = len(encode(message, 5))
        assert 0.5 * encoded < bytes_of(message, 1_000_000) < 2 * encoded


def test_a_list_of_numbers_is_measured_at_once() -> None:
    """A member may have thousands of partitions."""
    steps = {}
    for count in (3, 3_000):
        partitions = TopicPartitions(topic_id=UUID(int=1), partitions=tuple(range(count)))
        assigned = Assignment(topic_partitions=(partitions,))
        message = ConsumerGroupHeartbeatResponse(error_message=None, assignment=assigned)
        assert bytes_of(message, 1_000_000) > 4 * count
        with counted_steps() as counted:
            bytes_of(message, 1_000_000)
        steps[count] = counted.count
    assert steps[3] == steps[3_000]


def test_counting_stops_at_the_limit() -> None:
    """The first entries show whether a message is long."""
    message = DescribeGroupsRequest(groups=("g" * 100,) * 50)
    assert 1_000 < bytes_of(message, 1_000) < 1_200
