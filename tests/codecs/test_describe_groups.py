"""DescribeGroups from a table, in both directions."""

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tests.support.codecs import check_both_ways

MEMBER = DescribedGroupMember(
    member_id="m",
    client_id="c",
    client_host="/h",
    member_metadata=b"\x01",
    member_assignment=b"\x02\x03",
)
GROUP = DescribedGroup(
    group_id="g",
    group_state="Stable",
    protocol_type="consumer",
    protocol_data="range",
    members=(MEMBER,),
)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (DescribeGroupsRequest(groups=("g", "h")), 0, "00000002 0001 'g' 0001 'h'"),
        (
            DescribeGroupsRequest(groups=("g",), include_authorized_operations=True),
            5,
            "02 02 'g' 01 00",
        ),
        (
            DescribeGroupsResponse(groups=(GROUP,)),
            0,
            """
            00000001 0000 0001 'g' 0006 'Stable' 0008 'consumer' 0005 'range'
            00000001 0001 'm' 0001 'c' 0002 '/h' 00000001 01 00000002 0203
            """,
        ),
        (
            DescribeGroupsResponse(groups=(GROUP,)),
            4,
            """
            00000000
            00000001 0000 0001 'g' 0006 'Stable' 0008 'consumer' 0005 'range'
            00000001 0001 'm' ffff 0001 'c' 0002 '/h' 00000001 01 00000002 0203
            80000000
            """,
        ),
        (
            DescribeGroupsResponse(
                groups=(
                    DescribedGroup(
                        error_code=69, error_message="no", group_id="g", group_state="Dead"
                    ),
                )
            ),
            6,
            "00000000 02 0045 03 'no' 02 'g' 05 'Dead' 01 01 01 80000000 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v3 adds operations, v4 the instance id, v6 the error message."""
    check_both_ways(message, version, wire)


def test_an_error_message_needs_v6() -> None:
    """The field is not ignorable in Kafka's schema."""
    group = DescribedGroup(group_id="g", error_message="no")
    with pytest.raises(WireError, match=r"groups\.error_message: this version has no such field"):
        encode(DescribeGroupsResponse(groups=(group,)), 5)
