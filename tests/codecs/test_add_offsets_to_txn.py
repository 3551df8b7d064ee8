"""AddOffsetsToTxn responses from a table, in both directions."""

import pytest

from kafka_codecs.add_offsets_to_txn import (
    AddOffsetsToTxnResponse,
)
from tests.support.codecs import check_both_ways

ANSWER = AddOffsetsToTxnResponse(error_code=53)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            0,
            """
            00000000 0035                       # throttle_time_ms, error_code
            """,
        ),
        (
            3,
            """
            00000000 0035                       # throttle_time_ms, error_code
            00
            """,
        ),
    ],
)
def test_responses_encode_and_decode(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    check_both_ways(ANSWER, version, wire)
