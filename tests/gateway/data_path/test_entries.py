"""How much work a request is."""

import pytest

from gateway.data_path.entries import entries_of
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)

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
def test_every_list_counts_also_those_inside(message: Struct, entries: int) -> None:
    """Groups, their topics, and the partitions of those."""
    assert entries_of(message) == entries
