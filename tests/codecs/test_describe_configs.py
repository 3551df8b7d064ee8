"""DescribeConfigs from a table, in both directions."""

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tests.support.codecs import check_both_ways

RESOURCES = (
    DescribeConfigsResource(resource_type=32, resource_name="g", configuration_keys=("k",)),
    DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None),
)
PLAIN = DescribeConfigsResourceResult(
    name="k",
    value="7",
    read_only=False,
    config_source=ConfigSource.DYNAMIC_GROUP,
    is_sensitive=False,
    synonyms=(DescribeConfigsSynonym(name="b", value="5", source=ConfigSource.DEFAULT),),
)
TYPED = DescribeConfigsResourceResult(
    name="k",
    value=None,
    read_only=True,
    config_source=ConfigSource.STATIC_BROKER,
    is_sensitive=True,
    synonyms=(),
    config_type=ConfigType.INT,
    documentation="why",
)


def response(*configs: DescribeConfigsResourceResult) -> DescribeConfigsResponse:
    """A response about one group."""
    result = DescribeConfigsResult(resource_type=32, resource_name="g", configs=configs)
    return DescribeConfigsResponse(results=(result,))


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            DescribeConfigsRequest(resources=RESOURCES, include_synonyms=True),
            1,
            """
            00000002
            20 0001 'g' 00000001 0001 'k'
            04 0001 '1' ffffffff
            01
            """,
        ),
        (
            DescribeConfigsRequest(resources=RESOURCES, include_documentation=True),
            4,
            "03 20 02 'g' 02 02 'k' 00 04 02 '1' 00 00 00 01 00",
        ),
        (
            response(PLAIN),
            1,
            """
            00000000 00000001
            0000 ffff 20 0001 'g'
            00000001 0001 'k' 0001 '7' 00 08 00
            00000001 0001 'b' 0001 '5' 05
            """,
        ),
        (
            response(TYPED),
            3,
            """
            00000000 00000001
            0000 ffff 20 0001 'g'
            00000001 0001 'k' ffff 01 04 01 00000000
            03 0003 'why'
            """,
        ),
        (
            response(TYPED),
            4,
            "00000000 02 0000 00 20 02 'g' 02 02 'k' 00 01 04 01 01 03 04 'why' 00 00 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v3 adds types and documentation."""
    check_both_ways(message, version, wire)


def test_an_older_version_has_neither_type_nor_documentation() -> None:
    """Responses omit them. A request for documentation is an error in such a version."""
    assert encode(response(TYPED), 2) != encode(response(TYPED), 3)
    with pytest.raises(WireError, match="no such field"):
        encode(DescribeConfigsRequest(resources=(), include_documentation=True), 2)
