"""OffsetForLeaderEpoch responses from a table, in both directions."""

import pytest

from kafka_codecs.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.codecs import check_both_ways

ANSWER = OffsetForLeaderEpochResponse(
    topics=(
        OffsetForLeaderTopicResult(
            topic="t", partitions=(EpochEndOffset(partition=3, leader_epoch=2, end_offset=9),)
        ),
    ),
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            2,
            """
            00000000                            # throttle_time_ms
            00000001                            # topics
              0001 't'
              00000001                          # partitions
                0000 00000003                   # error_code, partition
                00000002 0000000000000009       # leader_epoch, end_offset
            """,
        ),
        (
            4,
            """
            00000000                            # throttle_time_ms
            02                                  # topics
              02 't'
              02                                # partitions
                0000 00000003                   # error_code, partition
                00000002 0000000000000009       # leader_epoch, end_offset
                00
              00
            00
            """,
        ),
    ],
)
def test_responses_encode_and_decode(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    check_both_ways(ANSWER, version, wire)
