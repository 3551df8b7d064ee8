"""The gateway's own connections to brokers: kept, opened again, and not tried in vain."""

import pytest
from trio.testing import MockClock

from gateway.cluster.access import PLAIN_ACCESS
from gateway.cluster.broker_connection import Address
from gateway.cluster.broker_connections import TRY_AGAIN_S, BrokerConnections
from gateway.cluster.errors import UpstreamError
from kafka_codecs.apis import ApiKey
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.header import RequestHeader
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker
from tests.support.ports import HOST, free_port
from tests.support.wire import Wire

REQUEST = FindCoordinatorRequest(key="g")


def connections_to(**addresses: Address) -> BrokerConnections:
    """Connections to brokers b1, b2 and so on."""
    return BrokerConnections(PLAIN_ACCESS, lambda node_id: addresses.get(f"b{node_id}"))


async def test_a_connection_closed_for_idleness_is_no_error() -> None:
    """The request is repeated on a new connection. If that closes, it is an error."""
    closes: list[bool] = [False, True, False, True, True]

    async def find(wire: Wire, header: RequestHeader, body: bytes) -> None:
        if closes.pop(0):
            raise EOFError
        await answer(wire, header, FindCoordinatorResponse(node_id=7, host="h", port=1))

    broker = FakeBroker(handlers={ApiKey.FIND_COORDINATOR: find})
    async with running_fake_broker(broker):
        connections = connections_to(b1=broker.address)
        for _ in range(2):
            assert (await connections.ask(1, REQUEST, 3)).node_id == 7
        with pytest.raises(UpstreamError):
            await connections.ask(1, REQUEST, 3)
        assert closes == []
        connections.close()


async def test_a_broker_that_failed_is_tried_again_after_a_while(autojump_clock: MockClock) -> None:
    """Requests fail immediately in between, for the same reason."""
    port = free_port()
    connections = connections_to(b1=(HOST, port))
    with pytest.raises(UpstreamError) as failure:
        await connections.connect(1)
    broker = FakeBroker(address=(HOST, port))
    async with running_fake_broker(broker):
        with pytest.raises(UpstreamError) as repeated:
            await connections.connect(1)
        assert str(repeated.value) == str(failure.value)
        autojump_clock.jump(TRY_AGAIN_S)
        assert not (await connections.connect(1)).closed
        connections.close()


async def test_an_unknown_broker_is_named() -> None:
    with pytest.raises(UpstreamError, match="broker 3 is not known"):
        await connections_to().connect(3)


async def test_connected_brokers_come_first_and_the_uncertain_one_last() -> None:
    """A rejected broker is not connected any more, and its reason is told."""
    broker = FakeBroker()
    async with running_fake_broker(broker):
        connections = connections_to(b2=broker.address)
        await connections.connect(2)
        assert connections.in_turn((1, 2, 3)) == [2, 1, 3]
        assert connections.in_turn((1, 2, 3), doubtful=2) == [1, 3, 2]
        connections.reject(2, "it belongs to another cluster")
        assert connections.in_turn((1, 2, 3)) == [1, 2, 3]
        with pytest.raises(UpstreamError, match="it belongs to another cluster"):
            await connections.connect(2)
