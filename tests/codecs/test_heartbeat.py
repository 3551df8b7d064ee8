"""Heartbeat from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            HeartbeatRequest(group_id="g", generation_id=4, member_id="m"),
            0,
            "0001 'g' 00000004 0001 'm'",
        ),
        (
            HeartbeatRequest(group_id="g", generation_id=4, member_id="m", group_instance_id="i"),
            3,
            "0001 'g' 00000004 0001 'm' 0001 'i'",
        ),
        (
            HeartbeatRequest(group_id="g", generation_id=4, member_id="m"),
            4,
            "02 'g' 00000004 02 'm' 00 00",
        ),
        (HeartbeatResponse(error_code=27), 0, "001b"),
        (HeartbeatResponse(throttle_time_ms=1, error_code=27), 1, "00000001 001b"),
        (HeartbeatResponse(throttle_time_ms=1), 4, "00000001 0000 00"),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v3 adds the instance id, and v4 is flexible."""
    check_both_ways(message, version, wire)
