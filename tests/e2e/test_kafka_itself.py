"""The real Kafka of other tests: brokers come and go, and keep their data."""

import pytest

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.metadata import MetadataRequest, MetadataResponse
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import on_release, with_new_protocol
from tests.support.until import until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


async def seen_at(address: tuple[str, int]) -> MetadataResponse:
    """A broker's view of its cluster."""
    async with await BrokerConnection.open(*address) as connection:
        answer: MetadataResponse = await connection.ask(MetadataRequest(topics=()))
        return answer


async def until_brokers(address: tuple[str, int], expected: set[int]) -> None:
    """Wait until a broker considers exactly these brokers alive."""
    await until_answered(
        lambda: seen_at(address),
        lambda seen: {broker.node_id for broker in seen.brokers} == expected,
    )


@with_new_protocol("_three_brokers")
async def test_brokers_return_with_their_ports_and_data(three_brokers: KafkaCluster) -> None:
    """One or all of them were stopped or killed."""
    before, group = three_brokers.addresses, fresh_group("kept")
    async with group_client(before[0], group) as client:
        await client.commit({0: 17})
    await three_brokers.brokers[1].stop()
    await until_brokers(before[1], {2, 3})
    await three_brokers.brokers[2].kill()
    await until_brokers(before[2], {3})
    await three_brokers.brokers[3].kill()
    assert not any(broker.is_running for broker in three_brokers.brokers.values())
    await three_brokers.start()
    assert three_brokers.addresses == before
    async with group_client(before[2], group) as client:
        assert (await client.committed())[0] == 17


@on_release("3.9", "one_broker")
async def test_a_broker_can_be_added(one_broker: KafkaCluster) -> None:
    """A new broker joins the cluster with the next node id."""
    assert await one_broker.add_broker() == 2
    for address in one_broker.addresses:
        assert [broker.node_id for broker in (await seen_at(address)).brokers] == [1, 2]
