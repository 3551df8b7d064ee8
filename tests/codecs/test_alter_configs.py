"""AlterConfigs from a table, in both directions."""

import pytest

from kafka_codecs.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.incremental_alter_configs import AlterConfigsResourceResponse
from tests.support.codecs import check_both_ways

REQUEST = AlterConfigsRequest(
    resources=(
        AlterConfigsResource(
            resource_type=32,
            resource_name="g",
            configs=(AlterableConfig(name="k", value="1"), AlterableConfig(name="l", value=None)),
        ),
    ),
    validate_only=True,
)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            REQUEST,
            1,
            """
            00000001 20 0001 'g'
            00000002 0001 'k' 0001 '1' 0001 'l' ffff
            01
            """,
        ),
        (REQUEST, 2, "02 20 02 'g' 03 02 'k' 02 '1' 00 02 'l' 00 00 00 01 00"),
        (
            AlterConfigsResponse(
                responses=(
                    AlterConfigsResourceResponse(
                        error_code=40, error_message="no", resource_type=32, resource_name="g"
                    ),
                )
            ),
            2,
            "00000000 02 0028 03 'no' 20 02 'g' 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """The codec accepts null values; the broker may not."""
    check_both_ways(message, version, wire)
