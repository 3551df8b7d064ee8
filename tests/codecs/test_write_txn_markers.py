"""WriteTxnMarkers responses from a table, in both directions."""

import pytest

from kafka_codecs.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.codecs import check_both_ways

ANSWER = WriteTxnMarkersResponse(
    markers=(
        WritableTxnMarkerResult(
            producer_id=9,
            topics=(
                WritableTxnMarkerTopicResult(
                    name="t",
                    partitions=(WritableTxnMarkerPartitionResult(partition_index=3),),
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            1,
            """
            02                                  # markers
              0000000000000009                  # producer_id
              02                                # topics
                02 't'
                02                              # partitions
                  00000003 0000                 # partition_index, error_code
                  00
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
