"""ListGroups from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (ListGroupsRequest(), 0, ""),
        (ListGroupsRequest(), 3, "00"),
        (ListGroupsRequest(states_filter=("Empty",)), 4, "02 06 'Empty' 00"),
        (ListGroupsRequest(types_filter=("classic",)), 5, "01 02 08 'classic' 00"),
        (
            ListGroupsResponse(groups=(ListedGroup(group_id="g", protocol_type="consumer"),)),
            0,
            "0000 00000001 0001 'g' 0008 'consumer'",
        ),
        (
            ListGroupsResponse(
                groups=(
                    ListedGroup(
                        group_id="g",
                        protocol_type="consumer",
                        group_state="Stable",
                        group_type="classic",
                    ),
                )
            ),
            5,
            "00000000 0000 02 02 'g' 09 'consumer' 07 'Stable' 08 'classic' 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v4 adds the state, v5 the type."""
    check_both_ways(message, version, wire)
