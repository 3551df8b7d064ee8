"""SyncGroup from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            SyncGroupRequest(
                group_id="g",
                generation_id=4,
                member_id="m",
                assignments=(SyncGroupAssignment(member_id="m", assignment=b"\x01"),),
            ),
            0,
            "0001 'g' 00000004 0001 'm' 00000001 0001 'm' 00000001 01",
        ),
        (
            SyncGroupRequest(
                group_id="g", generation_id=4, member_id="m", group_instance_id="i", assignments=()
            ),
            3,
            "0001 'g' 00000004 0001 'm' 0001 'i' 00000000",
        ),
        (
            SyncGroupRequest(
                group_id="g",
                generation_id=4,
                member_id="m",
                protocol_type="consumer",
                protocol_name="range",
                assignments=(SyncGroupAssignment(member_id="m", assignment=b"\x01"),),
            ),
            5,
            "02 'g' 00000004 02 'm' 00 09 'consumer' 06 'range' 02 02 'm' 02 01 00 00",
        ),
        (SyncGroupResponse(error_code=27), 0, "001b 00000000"),
        (
            SyncGroupResponse(throttle_time_ms=1, protocol_name="range", assignment=b"\x01"),
            5,
            "00000001 0000 00 06 'range' 02 01 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v5 adds protocol type and name, which may be null."""
    check_both_ways(message, version, wire)
