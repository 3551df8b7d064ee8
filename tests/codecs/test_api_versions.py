"""ApiVersions from a table, in both directions."""

import pytest

from kafka_codecs.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_codecs.declaration import Struct
from tests.support.codecs import check_both_ways

HEARTBEAT = ApiVersion(api_key=12, min_version=0, max_version=4)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (ApiVersionsRequest(), 0, ""),
        (
            ApiVersionsRequest(client_software_name="kio", client_software_version="1"),
            3,
            "04 'kio' 02 '1' 00",
        ),
        (
            ApiVersionsResponse(error_code=35, api_keys=(HEARTBEAT,)),
            0,
            "0023 00000001 000c 0000 0004",
        ),
        (
            ApiVersionsResponse(api_keys=(HEARTBEAT,), throttle_time_ms=1),
            1,
            "0000 00000001 000c 0000 0004 00000001",
        ),
        (
            ApiVersionsResponse(
                api_keys=(HEARTBEAT,),
                supported_features=(
                    SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
                ),
                finalized_features_epoch=9,
                finalized_features=(
                    FinalizedFeatureKey(
                        name="group.version", max_version_level=1, min_version_level=1
                    ),
                ),
                zk_migration_ready=True,
            ),
            4,
            """
            0000
            02 000c 0000 0004 00                        # one api
            00000000                                    # throttle_time_ms
            04                                          # tagged fields
            00 14 02 0e 'group.version' 0000 0001 00    # supported
            01 08 0000000000000009                      # epoch
            02 14 02 0e 'group.version' 0001 0001 00    # finalized, the highest level first
            03 01 01                                    # zk_migration_ready
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Features are tagged fields, and the request of an old client is empty."""
    check_both_ways(message, version, wire)
