"""TxnOffsetCommit from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.codecs import check_both_ways


def commit(**more: object) -> TxnOffsetCommitRequest:
    """A request for offset 9 of partition 3."""
    partition = TxnOffsetCommitRequestPartition(
        partition_index=3, committed_offset=9, committed_metadata=None
    )
    fields = {
        "transactional_id": "x",
        "group_id": "g",
        "producer_id": 7,
        "producer_epoch": 1,
        "topics": (TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    }
    return TxnOffsetCommitRequest(**(fields | more))  # type: ignore[arg-type]


# kio has no v6; these are the bytes that kafka-clients 4.4.0 writes and reads.
REQUEST_OF_KAFKA_4_4 = """
    02 'x' 02 'g' 0000000000000001 0002 00000006 02 'i' 02 's'
    02 00000000000000000000000000000008 02 00000003 0000000000000004 00000005 02 'm' 00 00
    00
"""
RESPONSE_OF_KAFKA_4_4 = "00000007 02 00000000000000000000000000000008 02 00000003 0071 00 00 00"


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            commit(),
            0,
            """
            0001 'x' 0001 'g' 0000000000000007 0001
            00000001 0001 't' 00000001 00000003 0000000000000009 ffff
            """,
        ),
        (
            commit(),
            2,
            """
            0001 'x' 0001 'g' 0000000000000007 0001
            00000001 0001 't' 00000001 00000003 0000000000000009 ffffffff ffff
            """,
        ),
        (
            commit(generation_id=4, member_id="m", group_instance_id="i"),
            5,
            """
            02 'x' 02 'g' 0000000000000007 0001 00000004 02 'm' 02 'i'
            02 02 't' 02 00000003 0000000000000009 ffffffff 00 00 00
            00
            """,
        ),
        (
            commit(
                producer_id=1,
                producer_epoch=2,
                generation_id=6,
                member_id="i",
                group_instance_id="s",
                topics=(
                    TxnOffsetCommitRequestTopic(
                        topic_id=UUID(int=8),
                        partitions=(
                            TxnOffsetCommitRequestPartition(
                                partition_index=3,
                                committed_offset=4,
                                committed_leader_epoch=5,
                                committed_metadata="m",
                            ),
                        ),
                    ),
                ),
            ),
            6,
            REQUEST_OF_KAFKA_4_4,
        ),
        (
            TxnOffsetCommitResponse(
                throttle_time_ms=7,
                topics=(
                    TxnOffsetCommitResponseTopic(
                        topic_id=UUID(int=8),
                        partitions=(
                            TxnOffsetCommitResponsePartition(partition_index=3, error_code=113),
                        ),
                    ),
                ),
            ),
            6,
            RESPONSE_OF_KAFKA_4_4,
        ),
        (
            TxnOffsetCommitResponse(
                topics=(
                    TxnOffsetCommitResponseTopic(
                        name="t",
                        partitions=(
                            TxnOffsetCommitResponsePartition(partition_index=3, error_code=22),
                        ),
                    ),
                )
            ),
            3,
            "00000000 02 02 't' 02 00000003 0016 00 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v2 adds the leader epoch, v3 group metadata, v6 topic ids."""
    check_both_ways(message, version, wire)


def test_group_metadata_is_never_dropped() -> None:
    """Without it a zombie could commit (KIP-447)."""
    with pytest.raises(WireError, match="generation_id: this version has no such field"):
        encode(commit(generation_id=4), 2)
