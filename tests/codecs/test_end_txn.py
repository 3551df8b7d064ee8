"""EndTxn responses from a table, in both directions."""

import pytest

from kafka_codecs.end_txn import (
    EndTxnResponse,
)
from tests.support.codecs import check_both_ways

ANSWER = EndTxnResponse(error_code=53)


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
            5,
            """
            00000000 0035                       # throttle_time_ms, error_code
            ffffffffffffffff ffff               # producer_id, producer_epoch
            00
            """,
        ),
    ],
)
def test_responses_encode_and_decode(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    check_both_ways(ANSWER, version, wire)
