"""FindCoordinator from a table, in both directions."""

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (FindCoordinatorRequest(key="g"), 0, "0001 'g'"),
        (
            FindCoordinatorRequest(key="x", key_type=CoordinatorType.TRANSACTION),
            1,
            "0001 'x' 01",
        ),
        (FindCoordinatorRequest(key="g"), 3, "02 'g' 00 00"),
        (FindCoordinatorRequest(coordinator_keys=("g", "h")), 4, "00 03 02 'g' 02 'h' 00"),
        (
            FindCoordinatorResponse(node_id=1, host="h", port=9092),
            0,
            "0000 00000001 0001 'h' 00002384",
        ),
        (
            FindCoordinatorResponse(
                throttle_time_ms=2, error_code=15, error_message=None, node_id=-1, port=-1
            ),
            2,
            "00000002 000f ffff ffffffff 0000 ffffffff",
        ),
        (
            FindCoordinatorResponse(
                coordinators=(
                    Coordinator(key="g", node_id=1, host="h", port=9092, error_message=None),
                )
            ),
            6,
            "00000000 02 02 'g' 00000001 02 'h' 00002384 0000 00 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Up to v3 there is one key, from v4 on many."""
    check_both_ways(message, version, wire)


def test_an_old_version_cannot_carry_many_keys() -> None:
    """The caller must send one request per key."""
    with pytest.raises(WireError, match="coordinator_keys: this version has no such field"):
        encode(FindCoordinatorRequest(coordinator_keys=("g",)), 3)
