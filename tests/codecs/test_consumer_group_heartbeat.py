"""The fields that groupferry adds to ConsumerGroupHeartbeat, which no other codec knows."""

import pytest

from kafka_codecs.consumer_group_heartbeat import (
    Assignment,
    ClientAssignor,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=4,
                client_assignors=(
                    ClientAssignor(
                        name="weights",
                        minimum_version=-1,
                        maximum_version=3,
                        reason=1,
                        metadata_version=2,
                        metadata_bytes=b"\x07\x08",
                    ),
                ),
            ),
            1,
            """
            02 'g' 02 'm' 00000004 00 00 ffffffff 00 00 00 00
            01 904e 14                                              # tag 10,000, 20 bytes
            02 08 'weights' ffff 0003 01 0002 03 0708 00
            """,
        ),
        (
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=4, client_assignors=()
            ),
            0,
            "02 'g' 02 'm' 00000004 00 00 ffffffff 00 00 00 01 904e 01 01",
        ),
        (
            ConsumerGroupHeartbeatResponse(
                should_compute_assignment=True,
                assignment=Assignment(
                    topic_partitions=(), error=-3, metadata_version=2, metadata_bytes=b"\x07\x08"
                ),
            ),
            1,
            """
            00000000 0000 00 00 00000000 00000000
            01 01
            03 904e 01 fd 914e 02 0002 924e 03 03 0708              # end of the assignment
            01 904e 01 01
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Null means unchanged, which differs from empty."""
    check_both_ways(message, version, wire)
