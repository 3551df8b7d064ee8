"""OffsetDelete from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            OffsetDeleteRequest(
                group_id="g",
                topics=(
                    OffsetDeleteRequestTopic(
                        name="t", partitions=(OffsetDeleteRequestPartition(partition_index=3),)
                    ),
                ),
            ),
            0,
            "0001 'g' 00000001 0001 't' 00000001 00000003",
        ),
        (
            OffsetDeleteResponse(
                error_code=0,
                throttle_time_ms=1,
                topics=(
                    OffsetDeleteResponseTopic(
                        name="t",
                        partitions=(
                            OffsetDeleteResponsePartition(partition_index=3, error_code=86),
                        ),
                    ),
                ),
            ),
            0,
            "0000 00000001 00000001 0001 't' 00000001 00000003 0056",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """The error code precedes the throttle time, unlike in other responses."""
    check_both_ways(message, version, wire)
