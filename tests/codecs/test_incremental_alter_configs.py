"""IncrementalAlterConfigs from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.codecs import check_both_ways

REQUEST = IncrementalAlterConfigsRequest(
    resources=(
        AlterConfigsResource(
            resource_type=32,
            resource_name="g",
            configs=(
                AlterableConfig(name="k", config_operation=ConfigOperation.SET, value="1"),
                AlterableConfig(name="l", config_operation=ConfigOperation.DELETE, value=None),
            ),
        ),
    ),
    validate_only=False,
)
RESPONSE = IncrementalAlterConfigsResponse(
    responses=(
        AlterConfigsResourceResponse(resource_type=2, resource_name="t"),
        AlterConfigsResourceResponse(
            error_code=42, error_message="no", resource_type=32, resource_name=""
        ),
    )
)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            REQUEST,
            0,
            """
            00000001 20 0001 'g'
            00000002
            0001 'k' 00 0001 '1'
            0001 'l' 01 ffff
            00
            """,
        ),
        (REQUEST, 1, "02 20 02 'g' 03 02 'k' 00 02 '1' 00 02 'l' 01 00 00 00 00 00"),
        (
            RESPONSE,
            0,
            """
            00000000 00000002
            0000 ffff 02 0001 't'
            002a 0002 'no' 20 0000
            """,
        ),
        (RESPONSE, 1, "00000000 03 0000 00 02 02 't' 00 002a 03 'no' 20 01 00 00"),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Operations are numbers. A null value restores the default."""
    check_both_ways(message, version, wire)
