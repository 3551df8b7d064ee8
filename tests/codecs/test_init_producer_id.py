"""InitProducerId responses from a table, in both directions."""

import pytest

from kafka_codecs.init_producer_id import (
    InitProducerIdResponse,
)
from tests.support.codecs import check_both_ways

ANSWER = InitProducerIdResponse(producer_id=9, producer_epoch=2)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (
            0,
            """
            00000000 0000                       # throttle_time_ms, error_code
            0000000000000009 0002               # producer_id, producer_epoch
            """,
        ),
        (
            6,
            """
            00000000 0000                       # throttle_time_ms, error_code
            0000000000000009 0002               # producer_id, producer_epoch
            ffffffffffffffff ffff               # ongoing_txn_producer_id, ..._epoch
            00
            """,
        ),
    ],
)
def test_responses_encode_and_decode(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    check_both_ways(ANSWER, version, wire)
