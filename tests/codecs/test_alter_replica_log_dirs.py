"""AlterReplicaLogDirs responses from a table, in both directions."""

import pytest

from kafka_codecs.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from tests.support.codecs import check_both_ways

ANSWER = AlterReplicaLogDirsResponse(
    results=(
        AlterReplicaLogDirTopicResult(
            topic_name="t",
            partitions=(AlterReplicaLogDirPartitionResult(partition_index=3, error_code=57),),
        ),
    ),
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            1,
            """
            00000000                            # throttle_time_ms
            00000001                            # results
              0001 't'
              00000001                          # partitions
                00000003 0039                   # partition_index, error_code
            """,
        ),
        (
            2,
            """
            00000000                            # throttle_time_ms
            02                                  # results
              02 't'
              02                                # partitions
                00000003 0039                   # partition_index, error_code
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
