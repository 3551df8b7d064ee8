"""CreatePartitions responses from a table, in both directions."""

import pytest

from kafka_codecs.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tests.support.codecs import check_both_ways

ANSWER = CreatePartitionsResponse(
    results=(CreatePartitionsTopicResult(name="t", error_code=37, error_message="no"),)
)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            0,
            """
            00000000                            # throttle_time_ms
            00000001                            # results
              0001 't' 0025                     # name, error_code
              0002 'no'
            """,
        ),
        (
            2,
            """
            00000000                            # throttle_time_ms
            02                                  # results
              02 't' 0025                       # name, error_code
              03 'no'
              00
            00
            """,
        ),
    ],
)
def test_responses_encode_and_decode(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    check_both_ways(ANSWER, version, wire)
