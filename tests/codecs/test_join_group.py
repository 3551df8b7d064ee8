"""JoinGroup from a table, in both directions."""

import pytest

from kafka_codecs import WireError, decode, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.join_group import (
    JoinGroupMember,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from tests.support.codecs import check_both_ways

RANGE = JoinGroupProtocol(name="range", metadata=b"\x01\x02")


def join(**more: object) -> JoinGroupRequest:
    """The request of a consumer with the range assignor."""
    fields = {
        "group_id": "g",
        "session_timeout_ms": 6000,
        "member_id": "m",
        "protocol_type": "consumer",
        "protocols": (RANGE,),
    }
    return JoinGroupRequest(**(fields | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            join(),
            0,
            "0001 'g' 00001770 0001 'm' 0008 'consumer' 00000001 0005 'range' 00000002 0102",
        ),
        (
            join(rebalance_timeout_ms=256, group_instance_id="i"),
            5,
            """
            0001 'g' 00001770 00000100 0001 'm' 0001 'i' 0008 'consumer'
            00000001 0005 'range' 00000002 0102
            """,
        ),
        (
            join(rebalance_timeout_ms=256, reason="why"),
            9,
            """
            02 'g' 00001770 00000100 02 'm' 00 09 'consumer'
            02 06 'range' 03 0102 00
            04 'why' 00
            """,
        ),
        (
            JoinGroupResponse(error_code=25, member_id="m"),
            0,
            "0019 ffffffff 0000 0000 0001 'm' 00000000",
        ),
        (
            JoinGroupResponse(
                throttle_time_ms=1,
                generation_id=4,
                protocol_name="range",
                leader="m",
                member_id="m",
                members=(JoinGroupMember(member_id="m", metadata=b"\xaa"),),
            ),
            5,
            """
            00000001 0000 00000004 0005 'range' 0001 'm' 0001 'm'
            00000001 0001 'm' ffff 00000001 aa
            """,
        ),
        (
            JoinGroupResponse(
                generation_id=4,
                protocol_type="consumer",
                protocol_name=None,
                leader="m",
                skip_assignment=True,
                member_id="m",
                members=(JoinGroupMember(member_id="m", group_instance_id="i", metadata=b""),),
            ),
            9,
            """
            00000000 0000 00000004 09 'consumer' 00 02 'm' 01 02 'm'
            02 02 'm' 02 'i' 01 00
            00
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Timeouts, instance ids, reasons and nulls depend on the version."""
    check_both_ways(message, version, wire)


def test_an_old_version_drops_a_reason_but_not_an_instance_id() -> None:
    """The reason is ignorable, but the instance id makes a member static."""
    assert encode(join(reason="why"), 5) == encode(join(), 5)
    with pytest.raises(WireError, match="group_instance_id: this version has no such field"):
        encode(join(group_instance_id="i"), 4)


def test_a_null_protocol_name_needs_v7() -> None:
    """Up to v6 an answer must have an empty name instead."""
    response = JoinGroupResponse(protocol_name=None)
    assert decode(JoinGroupResponse, encode(response, 7), 7) == response
    with pytest.raises(WireError, match="protocol_name: null where a value is required"):
        encode(response, 6)
