"""ListOffsets from a table, in both directions."""

import pytest

from kafka_codecs.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from tests.support.codecs import check_both_ways

ANSWER = ListOffsetsResponse(
    topics=(
        ListOffsetsTopicResponse(
            name="t",
            partitions=(ListOffsetsPartitionResponse(partition_index=3, offset=9),),
        ),
    ),
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            1,
            """
            00000001                            # topics
              0001 't'
              00000001                          # partitions
                00000003 0000                   # partition_index, error_code
                ffffffffffffffff                # timestamp
                0000000000000009                # offset
            """,
        ),
        (
            6,
            """
            00000000                            # throttle_time_ms
            02                                  # topics
              02 't'
              02                                # partitions
                00000003 0000                   # partition_index, error_code
                ffffffffffffffff                # timestamp
                0000000000000009                # offset
                ffffffff                        # leader_epoch
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


REQUEST = ListOffsetsRequest(
    topics=(
        ListOffsetsTopic(
            name="t", partitions=(ListOffsetsPartition(partition_index=3, timestamp=LATEST),)
        ),
    )
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            1,
            """
            ffffffff                            # replica_id
            00000001                            # topics
              0001 't'
              00000001                          # partitions
                00000003                        # partition_index
                ffffffffffffffff                # timestamp
            """,
        ),
        (
            10,
            """
            ffffffff 00                         # replica_id, isolation_level
            02                                  # topics
              02 't'
              02                                # partitions
                00000003 ffffffff               # partition_index, current_leader_epoch
                ffffffffffffffff                # timestamp
                00
              00
            00000000                            # timeout_ms
            00
            """,
        ),
    ],
)
def test_requests_encode_and_decode(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    check_both_ways(REQUEST, version, wire)
