"""DescribeCluster from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tests.support.codecs import check_both_ways

BROKER = DescribeClusterBroker(broker_id=1, host="h", port=9092)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (DescribeClusterRequest(include_cluster_authorized_operations=True), 0, "01 00"),
        (
            DescribeClusterRequest(
                include_cluster_authorized_operations=False, include_fenced_brokers=True
            ),
            2,
            "00 01 01 00",
        ),
        (
            DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=(BROKER,)),
            0,
            """
            00000000 0000 00 02 'c' 00000001
            02 00000001 02 'h' 00002384 00 00
            80000000 00
            """,
        ),
        (
            DescribeClusterResponse(error_code=114, error_message="no", endpoint_type=2),
            1,
            "00000000 0072 03 'no' 02 01 ffffffff 01 80000000 00",
        ),
        (
            DescribeClusterResponse(
                brokers=(
                    DescribeClusterBroker(
                        broker_id=1, host="h", port=9092, rack="r", is_fenced=True
                    ),
                )
            ),
            2,
            """
            00000000 0000 00 01 01 ffffffff
            02 00000001 02 'h' 00002384 02 'r' 01 00
            80000000 00
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v1 adds the endpoint type, v2 fenced brokers."""
    check_both_ways(message, version, wire)
