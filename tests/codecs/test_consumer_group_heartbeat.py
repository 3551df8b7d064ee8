"""ConsumerGroupHeartbeat from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.consumer_group_heartbeat import (
    Assignment,
    ClientAssignor,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_codecs.declaration import Struct
from tests.support.codecs import check_both_ways

OWNED = TopicPartitions(topic_id=UUID(int=1), partitions=(0, 3))


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=4),
            0,
            "02 'g' 02 'm' 00000004 00 00 ffffffff 00 00 00 00",
        ),
        (
            ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=4),
            1,
            "02 'g' 02 'm' 00000004 00 00 ffffffff 00 00 00 00 00",
        ),
        (
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=-2,
                instance_id="i",
                rack_id="r",
                rebalance_timeout_ms=256,
                subscribed_topic_names=("t",),
                subscribed_topic_regex="",
                server_assignor="uniform",
                topic_partitions=(OWNED,),
            ),
            1,
            """
            02 'g' 02 'm' fffffffe 02 'i' 02 'r' 00000100
            02 02 't'
            01
            08 'uniform'
            02 00000000000000000000000000000001 03 00000000 00000003 00
            00
            """,
        ),
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
                member_id="m", member_epoch=4, heartbeat_interval_ms=5000
            ),
            0,
            "00000000 0000 00 02 'm' 00000004 00001388 ff 00",
        ),
        (
            ConsumerGroupHeartbeatResponse(error_code=110, error_message="no"),
            1,
            "00000000 006e 03 'no' 00 00000000 00000000 ff 00",
        ),
        (
            ConsumerGroupHeartbeatResponse(
                member_id="m", assignment=Assignment(topic_partitions=(OWNED,))
            ),
            1,
            """
            00000000 0000 00 02 'm' 00000000 00000000
            01                                                      # an assignment is there
            02 00000000000000000000000000000001 03 00000000 00000003 00
            00                                                      # end of the assignment
            00
            """,
        ),
        (
            ConsumerGroupHeartbeatResponse(assignment=Assignment(topic_partitions=())),
            1,
            "00000000 0000 00 00 00000000 00000000 01 01 00 00",
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


def test_a_regular_expression_needs_v1() -> None:
    """The field is not ignorable, because dropping it would change the subscription."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_regex="t.*"
    )
    with pytest.raises(WireError, match="subscribed_topic_regex: this version has no such field"):
        encode(request, 0)
