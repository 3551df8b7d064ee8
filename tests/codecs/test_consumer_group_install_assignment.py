"""ConsumerGroupInstallAssignment from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    Member,
)
from kafka_codecs.declaration import Struct
from tests.support.codecs import check_both_ways

REQUEST = ConsumerGroupInstallAssignmentRequest(
    group_id="g",
    member_id="m",
    member_epoch=4,
    group_epoch=6,
    error=0,
    members=(
        Member(
            member_id="a",
            partitions=(TopicPartitions(topic_id=UUID(int=1), partitions=(0, 3)),),
            metadata_version=2,
            metadata_bytes=b"\x07\x08",
        ),
        Member(member_id="b", partitions=(), metadata_version=-1, metadata_bytes=b""),
    ),
)


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (
            REQUEST,
            """
            02 'g' 02 'm' 00000004 00000006 00
            03                                                      # two members
            02 'a' 02 00000000000000000000000000000001 03 00000000 00000003 00
            0002 03 0708 00
            02 'b' 01 ffff 01 00
            00
            """,
        ),
        (
            ConsumerGroupInstallAssignmentRequest(
                group_id="g", member_id="m", member_epoch=4, group_epoch=6, error=-3
            ),
            "02 'g' 02 'm' 00000004 00000006 fd 01 00",
        ),
        (ConsumerGroupInstallAssignmentResponse(), "00000000 0000 00 00"),
        (
            ConsumerGroupInstallAssignmentResponse(error_code=113, error_message="no"),
            "00000000 0071 03 'no' 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, wire: str) -> None:
    """The bytes follow from the schema in KIP-848: no released client writes them."""
    check_both_ways(message, 0, wire)
