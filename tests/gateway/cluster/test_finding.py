"""The first contact with a cluster."""

import pytest

from gateway.cluster.access import PLAIN_ACCESS
from gateway.cluster.errors import UpstreamError
from gateway.cluster.finding import find_cluster
from tests.support.fake_broker import FakeBroker, running_fake_broker
from tests.support.mock_cluster import running_mock_cluster
from tests.support.offset_broker import OffsetBroker
from tests.support.ports import HOST, free_port


async def test_the_address_that_has_answered_comes_first() -> None:
    """The outcome has the id of its cluster, and its brokers."""
    closed = (HOST, free_port())
    async with running_fake_broker(OffsetBroker(cluster_id="here")) as broker:
        cluster = await find_cluster([closed, broker.address], PLAIN_ACCESS)
    assert cluster.addresses == (broker.address, closed)
    assert (cluster.brokers, cluster.cluster_id) == ({1: broker.address}, "here")


@pytest.mark.parametrize("broker", [OffsetBroker(cluster_id=None), FakeBroker(cluster_id="m")])
async def test_an_id_that_does_not_last_is_none(broker: FakeBroker) -> None:
    """Kafka before 0.10.1 has none, and the embedded cluster makes one up at each start."""
    async with running_fake_broker(broker):
        assert (await find_cluster([broker.address], PLAIN_ACCESS)).cluster_id is None


async def test_the_embedded_cluster_has_no_id_that_lasts() -> None:
    """The embedded cluster states another id at each start."""
    async with running_mock_cluster(1) as upstream:
        assert (await find_cluster(upstream.bootstrap, PLAIN_ACCESS)).cluster_id is None


async def test_no_cluster_is_an_error() -> None:
    """The error names the address."""
    address = (HOST, free_port())
    with pytest.raises(UpstreamError, match=f"{address[1]}: Connection refused"):
        await find_cluster([address], PLAIN_ACCESS)
