"""DeleteRecords responses from a table, in both directions."""

import pytest

from kafka_codecs.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tests.support.codecs import check_both_ways

ANSWER = DeleteRecordsResponse(
    topics=(
        DeleteRecordsTopicResult(
            name="t",
            partitions=(DeleteRecordsPartitionResult(partition_index=3, low_watermark=9),),
        ),
    ),
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            0,
            """
            00000000                            # throttle_time_ms
            00000001                            # topics
              0001 't'
              00000001                          # partitions
                00000003 0000000000000009 0000  # partition_index, low_watermark, error_code
            """,
        ),
        (
            2,
            """
            00000000                            # throttle_time_ms
            02                                  # topics
              02 't'
              02                                # partitions
                00000003 0000000000000009 0000  # partition_index, low_watermark, error_code
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
