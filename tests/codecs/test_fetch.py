"""Fetch from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kafka_codecs.produce import LeaderIdAndEpoch, NodeEndpoint
from tests.support.codecs import check_both_ways

WANTED = FetchPartition(partition=3, fetch_offset=9, partition_max_bytes=7)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            FetchRequest(
                max_wait_ms=5,
                min_bytes=1,
                isolation_level=1,
                topics=(FetchTopic(topic="t", partitions=(WANTED,)),),
            ),
            4,
            """
            ffffffff 00000005 00000001 7fffffff 01
            00000001 0001 't' 00000001 00000003 0000000000000009 00000007
            """,
        ),
        (
            FetchRequest(
                max_wait_ms=5,
                min_bytes=1,
                session_id=8,
                session_epoch=2,
                topics=(),
                forgotten_topics_data=(ForgottenTopic(topic="t", partitions=(3,)),),
            ),
            7,
            """
            ffffffff 00000005 00000001 7fffffff 00
            00000008 00000002
            00000000
            00000001 0001 't' 00000001 00000003
            """,
        ),
        (
            FetchRequest(
                replica_state=ReplicaState(replica_id=2, replica_epoch=6),
                max_wait_ms=5,
                min_bytes=1,
                topics=(FetchTopic(topic_id=UUID(int=1), partitions=(WANTED,)),),
                rack_id="r",
            ),
            15,
            """
            00000005 00000001 7fffffff 00
            00000000 ffffffff
            02 00000000000000000000000000000001
            02 00000003 ffffffff 0000000000000009 ffffffff ffffffffffffffff 00000007 00
            00
            01
            02 'r'
            01 01 0d 00000002 0000000000000006 00   # replica_state, tagged, 13 bytes
            """,
        ),
        (
            FetchResponse(
                responses=(
                    FetchableTopicResponse(
                        topic="t",
                        partitions=(
                            PartitionData(
                                partition_index=3,
                                high_watermark=9,
                                aborted_transactions=(
                                    AbortedTransaction(producer_id=4, first_offset=5),
                                ),
                                records=b"abc",
                            ),
                        ),
                    ),
                ),
            ),
            4,
            """
            00000000
            00000001 0001 't'
            00000001 00000003 0000 0000000000000009 ffffffffffffffff
            00000001 0000000000000004 0000000000000005
            00000003 'abc'
            """,
        ),
        (
            FetchResponse(error_code=70, responses=()),
            7,
            "00000000 0046 00000000 00000000",
        ),
        (
            FetchResponse(
                responses=(
                    FetchableTopicResponse(
                        topic_id=UUID(int=1),
                        partitions=(
                            PartitionData(
                                partition_index=3,
                                error_code=6,
                                high_watermark=-1,
                                current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=8),
                                aborted_transactions=None,
                                records=None,
                            ),
                        ),
                    ),
                ),
                node_endpoints=(NodeEndpoint(node_id=2, host="h", port=9092),),
            ),
            16,
            """
            00000000 0000 00000000
            02 00000000000000000000000000000001
            02 00000003 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff 00 ffffffff 00
            01 01 09 00000002 00000008 00           # current_leader, tagged, 9 bytes
            00
            01 00 0d 02 00000002 02 'h' 00002384 00 00   # node_endpoints, tagged, 13 bytes
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Topics have names up to v12, then ids. From v16 on, leader addresses are at the end of the
    response."""
    check_both_ways(message, version, wire)
