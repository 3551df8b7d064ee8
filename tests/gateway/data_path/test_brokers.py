"""An outage of a broker is detected once for all clients, and retried in the background."""

import contextlib

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.data_path import brokers as module
from gateway.data_path.brokers import BrokerRoute, Brokers, ClientSoftware
from gateway.data_path.config import Limits
from gateway.data_path.offer import offer_of
from kafka_codecs.api_versions import ApiVersionsResponse
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import RequestHeader
from tests.support.fake_broker import FakeBroker, running_fake_broker
from tests.support.garbage import freed_at_once
from tests.support.until import until
from tests.support.wire import Wire

SOFTWARE = ClientSoftware()


async def test_a_client_without_a_broker_leaves_no_garbage(nursery: trio.Nursery) -> None:
    """The traceback of the error has the client's frames."""
    brokers = Brokers(lambda: {}, nursery, limits=Limits())
    with freed_at_once(UpstreamError), contextlib.suppress(UpstreamError):
        await BrokerRoute(brokers, None).connect(SOFTWARE)
    nursery.cancel_scope.cancel()


async def test_versions_are_learned_before_the_first_client(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A herd that comes back finds them in memory. No broker holds up the start: the versions of
    one that is slow, or away, are asked for with its first client."""
    slow, away = "10.0.0.2", "10.0.0.3"
    asked = []

    async def open_connection(host: str, port: int, **_: object) -> object:
        asked.append(host)
        if host == slow:
            await trio.sleep_forever()
        if host == away:
            raise UpstreamError("refused")
        return connection

    class Connection:
        api_versions = ApiVersionsResponse()

        def close(self) -> None:
            closed.append(self)

    connection, closed = Connection(), list[Connection]()
    addresses = {1: ("10.0.0.1", 9092), 2: (slow, 9092), 3: (away, 9092)}
    brokers = Brokers(lambda: addresses, nursery)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BrokerConnection, "open", open_connection)
        started_s = trio.current_time()
        await brokers.learn_offers()
        assert trio.current_time() - started_s == module.LEARNING_S
        assert brokers.find_offer(1) == (1, offer_of(connection.api_versions))
        assert closed == [connection]
        assert brokers.find_offer(2) is None
        assert not brokers.is_in_doubt(2)
        assert brokers.is_in_doubt(3)
        nursery.cancel_scope.cancel()


async def test_a_hanging_broker_is_down_until_it_answers(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """A stopped process still accepts connections. Later requests fail immediately. One line
    reports the outage, and one its end."""
    monkeypatch.setattr(module, "TRY_AGAIN_S", 0.05)
    hung: list[RequestHeader] = []

    async def hang(wire: Wire, header: RequestHeader, body: bytes) -> None:
        hung.append(header)
        await trio.sleep_forever()

    async with running_fake_broker(FakeBroker()) as broker:
        brokers = Brokers(
            lambda: {1: broker.address}, nursery, limits=Limits(broker_timeout_s=0.05)
        )
        brokers.learn({1: broker.address})
        route = BrokerRoute(brokers, 1)
        (_, connection) = await route.connect(SOFTWARE)
        connection.close()
        broker.handlers[ApiKey.API_VERSIONS] = hang
        with capture_logs() as lines:
            with pytest.raises(UpstreamError, match="did not answer in"):
                await route.connect(SOFTWARE)
            for _ in range(10):
                with pytest.raises(UpstreamError, match="is away"):
                    await route.connect(SOFTWARE)
            assert len(hung) == 1
            recalled = route.recall()
            assert recalled is not None
            assert recalled == (1, offer_of(connection.api_versions))
            del broker.handlers[ApiKey.API_VERSIONS]
            with trio.fail_after(5):
                await route.until_back()
            (_, connection) = await route.connect(SOFTWARE)
            connection.close()
    assert [line["event"] for line in lines] == ["broker_unreachable", "broker_back"]
    nursery.cancel_scope.cancel()


async def test_few_connections_to_a_broker_are_opened_at_once(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """Clients that come back together take memory together. Those that waited for others, which
    found the broker away, do not try it."""
    monkeypatch.setattr(module, "OPENING_MAX", 2)
    asked: list[RequestHeader] = []
    refused: list[str] = []
    go_on = trio.Event()

    async def hang(wire: Wire, header: RequestHeader, body: bytes) -> None:
        asked.append(header)
        await go_on.wait()
        raise EOFError

    async def connect() -> None:
        try:
            await brokers.connect(1, SOFTWARE)
        except UpstreamError as error:
            refused.append(f"{error}")

    async with running_fake_broker(FakeBroker()) as broker:
        broker.handlers[ApiKey.API_VERSIONS] = hang
        brokers = Brokers(lambda: {1: broker.address}, nursery)
        brokers.learn({1: broker.address})
        async with trio.open_nursery() as clients:
            for _ in range(5):
                clients.start_soon(connect)
            await until(lambda: len(asked) == 2)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert len(asked) == 2
            go_on.set()
    assert refused[2:] == ["broker 1 is away"] * 3
    nursery.cancel_scope.cancel()


async def test_any_live_broker_serves_requests_without_a_broker(nursery: trio.Nursery) -> None:
    """Brokers that are down are skipped. A broker without known versions counts as supporting those
    of another."""
    async with running_fake_broker(FakeBroker()) as gone:
        pass
    async with running_fake_broker(FakeBroker()) as broker:
        brokers = Brokers(lambda: {1: gone.address, 2: broker.address}, nursery)
        brokers.learn({1: gone.address, 2: broker.address})
        assert BrokerRoute(brokers, None).recall() is None
        for _ in range(3):
            (node_id, connection) = await BrokerRoute(brokers, None).connect(SOFTWARE)
            connection.close()
            assert node_id == 2
        assert BrokerRoute(brokers, 1).recall() == (1, offer_of(connection.api_versions))
    nursery.cancel_scope.cancel()


async def test_clients_without_a_broker_are_served_by_one_after_another(
    nursery: trio.Nursery,
) -> None:
    """What a broker offers is remembered. A client that relies on that is connected to the same
    broker, as long as it can be reached."""
    async with running_fake_broker(FakeBroker()) as one, running_fake_broker(FakeBroker()) as two:
        brokers = Brokers(lambda: {1: one.address, 2: two.address}, nursery)
        brokers.learn({1: one.address, 2: two.address})
        route = BrokerRoute(brokers, None)
        assert route.find_offer() is None
        for node_id in (1, 2):
            (_, connection) = await BrokerRoute(brokers, node_id).connect(SOFTWARE)
            connection.close()
        offers = [known for _ in range(4) if (known := route.find_offer()) is not None]
        assert sorted(node_id for node_id, _ in offers) == [1, 1, 2, 2]
        for preferred_id in (1, 1, 2, 2):
            (node_id, connection) = await route.connect(SOFTWARE, preferred_id)
            connection.close()
            assert node_id == preferred_id
        brokers.doubt(2, "it is away")
        assert [route.find_offer(), route.find_offer()] == [
            (1, offer_of(connection.api_versions))
        ] * 2
        (node_id, connection) = await route.connect(SOFTWARE, 2)
        connection.close()
        assert node_id == 1
    nursery.cancel_scope.cancel()


async def test_a_slow_broker_is_not_down(nursery: trio.Nursery) -> None:
    """A slow broker accepts connections, so all requests continue. Only one check runs at a
    time."""
    async with running_fake_broker(FakeBroker()) as broker:
        brokers = Brokers(lambda: {1: broker.address}, nursery)
        brokers.learn({1: broker.address})
        route = BrokerRoute(brokers, 1)
        with capture_logs() as lines:
            for _ in range(10):
                route.suspect(1)
            await until(lambda: bool(lines))
            await trio.testing.wait_all_tasks_blocked(0.01)
            (_, connection) = await route.connect(SOFTWARE)
            connection.close()
        assert [line["event"] for line in lines] == ["broker_slow"]
    nursery.cancel_scope.cancel()


async def test_no_request_waits_long_for_a_suspected_broker(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """Two timeouts in a row would exceed a session. Once it has answered, all continue."""
    monkeypatch.setattr(module, "SUSPECT_PATIENCE_S", 0.01)
    monkeypatch.setattr(module, "TRY_AGAIN_S", 0.05)
    checked = trio.Event()

    async def hang(wire: Wire, header: RequestHeader, body: bytes) -> None:
        hung.append(header)
        await checked.wait()
        raise EOFError

    hung: list[RequestHeader] = []
    async with running_fake_broker(FakeBroker()) as broker:
        broker.handlers[ApiKey.API_VERSIONS] = hang
        brokers = Brokers(lambda: {1: broker.address}, nursery, limits=Limits(broker_timeout_s=60))
        brokers.learn({1: broker.address})
        route = BrokerRoute(brokers, 1)
        route.suspect(1)
        await until(lambda: bool(hung))
        for _ in range(3):
            with pytest.raises(UpstreamError, match="may be away"):
                await route.connect(SOFTWARE)
        assert len(hung) == 1
        del broker.handlers[ApiKey.API_VERSIONS]
        checked.set()
        with trio.fail_after(10):
            await route.until_back()
        (_, connection) = await route.connect(SOFTWARE)
        connection.close()
    nursery.cancel_scope.cancel()


async def test_a_suspected_broker_that_hangs_is_down(nursery: trio.Nursery) -> None:
    """Its connections stay open without answers."""

    async def hang(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await trio.sleep_forever()

    async with running_fake_broker(FakeBroker()) as broker:
        broker.handlers[ApiKey.API_VERSIONS] = hang
        brokers = Brokers(
            lambda: {1: broker.address}, nursery, limits=Limits(broker_timeout_s=0.05)
        )
        brokers.learn({1: broker.address})
        route = BrokerRoute(brokers, 1)
        with capture_logs() as lines:
            route.suspect(1)
            await until(lambda: bool(lines))
        assert [line["event"] for line in lines] == ["broker_unreachable"]
        with pytest.raises(UpstreamError, match="is away"):
            await route.connect(SOFTWARE)
    nursery.cancel_scope.cancel()
