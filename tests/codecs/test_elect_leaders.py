"""ElectLeaders responses from a table, in both directions."""

import pytest

from kafka_codecs.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tests.support.codecs import check_both_ways

ANSWER = ElectLeadersResponse(
    replica_election_results=(
        ReplicaElectionResult(
            topic="t",
            partition_result=(PartitionResult(partition_id=3, error_code=84),),
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
            00000001                            # replica_election_results
              0001 't'
              00000001                          # partition_result
                00000003 0054 ffff              # partition_id, error_code, error_message
            """,
        ),
        (
            2,
            """
            00000000 0000                       # throttle_time_ms, error_code
            02                                  # replica_election_results
              02 't'
              02                                # partition_result
                00000003 0054 00                # partition_id, error_code, error_message
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
