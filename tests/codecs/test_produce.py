"""Produce responses from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.codecs import check_both_ways

MOVED = PartitionProduceResponse(
    index=3,
    error_code=6,
    base_offset=-1,
    current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=8),
)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            ProduceResponse(
                responses=(
                    TopicProduceResponse(
                        name="t",
                        partition_responses=(PartitionProduceResponse(index=3, base_offset=9),),
                    ),
                ),
                throttle_time_ms=1,
            ),
            3,
            """
            00000001 0001 't'
            00000001 00000003 0000 0000000000000009 ffffffffffffffff
            00000001
            """,
        ),
        (
            ProduceResponse(
                responses=(
                    TopicProduceResponse(
                        name="t",
                        partition_responses=(
                            PartitionProduceResponse(
                                index=3,
                                error_code=87,
                                base_offset=-1,
                                log_start_offset=0,
                                record_errors=(BatchIndexAndErrorMessage(batch_index=4),),
                                error_message="no",
                            ),
                        ),
                    ),
                ),
            ),
            8,
            """
            00000001 0001 't'
            00000001 00000003 0057 ffffffffffffffff ffffffffffffffff 0000000000000000
            00000001 00000004 ffff 0002 'no'
            00000000
            """,
        ),
        (
            ProduceResponse(
                responses=(TopicProduceResponse(name="t", partition_responses=(MOVED,)),),
                node_endpoints=(NodeEndpoint(node_id=2, host="h", port=9092),),
            ),
            10,
            """
            02 02 't'
            02 00000003 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff 01 00
            01 00 09 00000002 00000008 00           # current_leader, tagged, 9 bytes
            00
            00000000
            01 00 0d 02 00000002 02 'h' 00002384 00 00   # node_endpoints, tagged, 13 bytes
            """,
        ),
        (
            ProduceResponse(
                responses=(TopicProduceResponse(topic_id=UUID(int=1), partition_responses=()),)
            ),
            13,
            "02 00000000000000000000000000000001 01 00 00000000 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """From v10 on the address of a new leader is a tagged field."""
    check_both_ways(message, version, wire)
