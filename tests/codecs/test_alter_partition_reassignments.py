"""AlterPartitionReassignments responses from a table, in both directions."""

import pytest

from kafka_codecs.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tests.support.codecs import check_both_ways

ANSWER = AlterPartitionReassignmentsResponse(
    responses=(
        ReassignableTopicResponse(
            name="t",
            partitions=(ReassignablePartitionResponse(partition_index=3, error_code=85),),
        ),
    ),
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            0,
            """
            00000000 0000 00                    # throttle_time_ms, error_code, error_message
            02                                  # responses
              02 't'
              02                                # partitions
                00000003 0055 00                # partition_index, error_code, error_message
                00
              00
            00
            """,
        ),
        (
            1,
            """
            00000000 01 0000 00                 # ..., allow_replication_factor_change, ...
            02                                  # responses
              02 't'
              02                                # partitions
                00000003 0055 00                # partition_index, error_code, error_message
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
