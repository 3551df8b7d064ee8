"""DeleteGroups from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from tests.support.codecs import check_both_ways

EXPLAINED = DeletableGroupResult(group_id="g", error_code=68, error_message="w")
RESULT = DeletableGroupResult(group_id="g", error_code=68)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (DeleteGroupsRequest(groups_names=("g",)), 0, "00000001 0001 'g'"),
        (DeleteGroupsRequest(groups_names=("g",)), 2, "02 02 'g' 00"),
        (DeleteGroupsResponse(results=(RESULT,)), 1, "00000000 00000001 0001 'g' 0044"),
        (DeleteGroupsResponse(results=(RESULT,)), 2, "00000000 02 02 'g' 0044 00 00"),
        (DeleteGroupsResponse(results=(RESULT,)), 3, "00000000 02 02 'g' 0044 00 00 00"),
        (DeleteGroupsResponse(results=(EXPLAINED,)), 3, "00000000 02 02 'g' 0044 02 'w' 00 00"),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Flexible from v2 on."""
    check_both_ways(message, version, wire)
