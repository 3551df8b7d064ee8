"""DeleteTopics from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.support.codecs import check_both_ways

ID = "00000000000000000000000000000001"


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            DeleteTopicsRequest(topic_names=("t",), timeout_ms=16),
            1,
            "00000001 0001 't' 00000010",
        ),
        (DeleteTopicsRequest(topic_names=("t",), timeout_ms=16), 4, "02 02 't' 00000010 00"),
        (
            DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=UUID(int=1)),), timeout_ms=16),
            6,
            f"02 00 {ID} 00 00000010 00",
        ),
        (
            DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", error_code=3),)),
            1,
            "00000000 00000001 0001 't' 0003",
        ),
        (
            DeleteTopicsResponse(
                responses=(
                    DeletableTopicResult(
                        name=None, topic_id=UUID(int=1), error_code=100, error_message="no"
                    ),
                )
            ),
            6,
            f"00000000 02 00 {ID} 0064 03 'no' 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Up to v5 topics have names, in v6 names or ids."""
    check_both_ways(message, version, wire)
