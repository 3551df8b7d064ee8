"""OffsetCommit from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs import decode, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_codecs.primitives import STRING_SIZE_MAX
from tests.support.codecs import check_both_ways

PARTITION = OffsetCommitRequestPartition(
    partition_index=3, committed_offset=9, committed_metadata=None
)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            OffsetCommitRequest(
                group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(PARTITION,)),)
            ),
            2,
            """
            0001 'g' ffffffff 0000 ffffffffffffffff
            00000001 0001 't' 00000001 00000003 0000000000000009 ffff
            """,
        ),
        (
            OffsetCommitRequest(
                group_id="g",
                generation_id_or_member_epoch=4,
                member_id="m",
                group_instance_id="i",
                topics=(
                    OffsetCommitRequestTopic(
                        name="t",
                        partitions=(
                            OffsetCommitRequestPartition(
                                partition_index=3,
                                committed_offset=9,
                                committed_leader_epoch=2,
                                committed_metadata="",
                            ),
                        ),
                    ),
                ),
            ),
            9,
            """
            02 'g' 00000004 02 'm' 02 'i'
            02 02 't' 02 00000003 0000000000000009 00000002 01 00 00
            00
            """,
        ),
        (
            OffsetCommitRequest(
                group_id="g",
                topics=(OffsetCommitRequestTopic(topic_id=UUID(int=1), partitions=(PARTITION,)),),
            ),
            10,
            """
            02 'g' ffffffff 01 00
            02 00000000000000000000000000000001
            02 00000003 0000000000000009 ffffffff 00 00
            00 00
            """,
        ),
        (
            OffsetCommitResponse(
                topics=(
                    OffsetCommitResponseTopic(
                        name="t",
                        partitions=(
                            OffsetCommitResponsePartition(partition_index=3, error_code=22),
                        ),
                    ),
                )
            ),
            2,
            "00000001 0001 't' 00000001 00000003 0016",
        ),
        (
            OffsetCommitResponse(
                throttle_time_ms=1,
                topics=(
                    OffsetCommitResponseTopic(
                        topic_id=UUID(int=1),
                        partitions=(OffsetCommitResponsePartition(partition_index=3),),
                    ),
                ),
            ),
            10,
            "00000001 02 00000000000000000000000000000001 02 00000003 0000 00 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Topics have names up to v9 and ids in v10."""
    check_both_ways(message, version, wire)


def test_a_topic_may_carry_name_and_id() -> None:
    """Each version writes the one that it supports; the other is ignorable."""
    topic = OffsetCommitRequestTopic(name="t", topic_id=UUID(int=1), partitions=())
    both = OffsetCommitRequest(group_id="g", topics=(topic,))
    assert b"\x02t" in encode(both, 9)
    assert UUID(int=1).bytes not in encode(both, 9)
    assert UUID(int=1).bytes in encode(both, 10)


@pytest.mark.parametrize("version", [7, 8])
def test_metadata_may_become_too_long_to_be_written(version: int) -> None:
    """Kafka then refuses the metadata of one partition, and stores the others. So it decides: the
    metadata is passed on in its own bytes."""
    text = "m" * (STRING_SIZE_MAX // 3 + 1)
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=text
    )
    commit = OffsetCommitRequest(
        group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
    )
    wire = encode(commit, version).replace(text.encode(), b"\xff" * len(text))
    decoded = decode(OffsetCommitRequest, wire, version)
    assert encode(decoded, version) == wire
    (topic,) = decoded.topics
    assert topic.partitions[0].committed_metadata == "\ufffd" * len(text)
