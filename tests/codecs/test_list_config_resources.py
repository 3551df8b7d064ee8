"""ListConfigResources from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (ListConfigResourcesRequest(), 0, "00"),
        (ListConfigResourcesRequest(), 1, "01 00"),
        (ListConfigResourcesRequest(resource_types=(32, 2)), 1, "03 20 02 00"),
        (
            ListConfigResourcesResponse(config_resources=(ConfigResource(resource_name="m"),)),
            0,
            "00000000 0000 02 02 'm' 00 00",
        ),
        (
            ListConfigResourcesResponse(
                config_resources=(ConfigResource(resource_name="g", resource_type=32),)
            ),
            1,
            "00000000 0000 02 02 'g' 20 00 00",
        ),
        (ListConfigResourcesResponse(error_code=35), 1, "00000000 0023 01 00"),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v0 has no types, and lists only client metrics."""
    check_both_ways(message, version, wire)
