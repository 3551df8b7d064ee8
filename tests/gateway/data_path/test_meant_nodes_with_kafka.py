"""A client that means another cluster or node is sent to bootstrap again, as at a broker."""

import pytest

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest
from tests.support.gateway import whole_gateway
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import NEWEST, on_release

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

FIRST_WITH_IDS = 5


@on_release(NEWEST)
@pytest.mark.parametrize(
    ("cluster", "node", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("this", 1, ErrorCode.NONE),
        ("this", -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
        ("other", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("this", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
async def test_a_listener_stands_for_its_broker(
    kafka: KafkaCluster, cluster: str | None, node: int, code: ErrorCode
) -> None:
    """The gateway checks both ids itself: Metadata shows them here as there (KIP-1242)."""
    async with whole_gateway(kafka.addresses) as gateway:
        ours = (await gateway.listeners())[1]
        for address in (kafka.addresses[0], ours):
            async with await BrokerConnection.open(*address) as client:
                shown = await client.ask(MetadataRequest(topics=()))
                request = ApiVersionsRequest(
                    client_software_name="lib",
                    client_software_version="1.2",
                    cluster_id=shown.cluster_id if cluster == "this" else cluster,
                    node_id=node,
                )
                answer = await client.ask(request, FIRST_WITH_IDS)
                assert answer.error_code == code, address
                assert bool(answer.api_keys) == (not code)
