"""ConsumerGroupDescribe from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs import encode
from kafka_codecs.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    MemberType,
    TopicPartitions,
)
from kafka_codecs.declaration import Struct
from tests.support.codecs import check_both_ways


def group(member_type: MemberType) -> DescribedGroup:
    """A group with one member that must revoke a partition."""
    owned = TopicPartitions(topic_id=UUID(int=1), topic_name="t", partitions=(0, 3))
    return DescribedGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=6,
        assignment_epoch=5,
        assignor_name="range",
        members=(
            Member(
                member_id="m",
                rack_id="r",
                member_epoch=4,
                client_id="c",
                client_host="/h",
                subscribed_topic_names=("t",),
                assignment=Assignment(topic_partitions=(owned,)),
                target_assignment=Assignment(topic_partitions=()),
                member_type=member_type,
            ),
        ),
    )


START = """
    00000000
    02 0000 00 02 'g' 0c 'Reconciling' 00000006 00000005 06 'range'
    02 02 'm' 00 02 'r' 00000004 02 'c' 03 '/h'
    02 02 't' 00
    02 00000000000000000000000000000001 02 't' 03 00000000 00000003 00 00   # assignment
    01 00                                                                   # target
"""
END = "80000000 00 00"


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=True),
            0,
            "02 02 'g' 01 00",
        ),
        (
            ConsumerGroupDescribeResponse(groups=(group(MemberType.UNKNOWN),)),
            0,
            f"{START} 00 {END}",
        ),
        (
            ConsumerGroupDescribeResponse(groups=(group(MemberType.CLASSIC),)),
            1,
            f"{START} 00 00 {END}",
        ),
        (
            ConsumerGroupDescribeResponse(
                groups=(DescribedGroup(error_code=69, error_message="no", group_id="g"),)
            ),
            1,
            "00000000 02 0045 03 'no' 02 'g' 01 00000000 00000000 01 01 80000000 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v1 adds the member type."""
    check_both_ways(message, version, wire)


def test_v0_drops_the_member_type() -> None:
    """The field is ignorable."""
    classic, unknown = (
        ConsumerGroupDescribeResponse(groups=(group(member_type),))
        for member_type in (MemberType.CLASSIC, MemberType.UNKNOWN)
    )
    assert encode(classic, 0) == encode(unknown, 0)
