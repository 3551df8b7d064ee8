"""AddPartitionsToTxn responses from a table, in both directions."""

import pytest

from kafka_codecs.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tests.support.codecs import check_both_ways

ANSWER = AddPartitionsToTxnResponse(
    results_by_topic_v3_and_below=(
        AddPartitionsToTxnTopicResult(
            name="t",
            results_by_partition=(
                AddPartitionsToTxnPartitionResult(partition_index=3, partition_error_code=29),
            ),
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
            00000001                            # results_by_topic_v3_and_below
              0001 't'
              00000001                          # results_by_partition
                00000003 001d                   # partition_index, partition_error_code
            """,
        ),
        (
            3,
            """
            00000000                            # throttle_time_ms
            02                                  # results_by_topic_v3_and_below
              02 't'
              02                                # results_by_partition
                00000003 001d                   # partition_index, partition_error_code
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
