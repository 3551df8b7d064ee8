"""LeaveGroup from a table, in both directions."""

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (LeaveGroupRequest(group_id="g", member_id="m"), 0, "0001 'g' 0001 'm'"),
        (
            LeaveGroupRequest(
                group_id="g", members=(MemberIdentity(member_id="", group_instance_id="i"),)
            ),
            3,
            "0001 'g' 00000001 0000 0001 'i'",
        ),
        (
            LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m", reason="r"),)),
            5,
            "02 'g' 02 02 'm' 00 02 'r' 00 00",
        ),
        (LeaveGroupResponse(error_code=25), 0, "0019"),
        (LeaveGroupResponse(throttle_time_ms=1, error_code=25), 2, "00000001 0019"),
        (
            LeaveGroupResponse(
                members=(MemberResponse(member_id="m", group_instance_id=None, error_code=25),)
            ),
            4,
            "00000000 0000 02 02 'm' 00 0019 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Up to v2 there is one member, from v3 on many."""
    check_both_ways(message, version, wire)


def test_an_old_version_cannot_carry_many_members() -> None:
    """The caller must send one request per member."""
    request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
    with pytest.raises(WireError, match="members: this version has no such field"):
        encode(request, 2)
