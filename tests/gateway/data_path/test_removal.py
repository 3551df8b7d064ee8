"""Whom a removal tells, whose connections it closes, and when it stops."""

from collections.abc import Collection

import pytest
import trio
from trio.testing import MockClock

from gateway.data_path import removal as module
from gateway.data_path.brokers import ClientSoftware
from gateway.data_path.removal import (
    CLOSING_S,
    QUIET_S,
    RUN_S,
    TELL_INTERVAL_S,
    ClientIdentity,
    Departures,
    Removal,
)
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.fake_broker import FakeBroker, running_fake_broker
from tests.support.until import until
from tests.support.wire import open_wire

JAVA = ClientSoftware(client_id="j", name="apache-kafka-java", version="4.3.1")


class FakeConnection:
    """A connection that ends when it is drained."""

    def __init__(
        self,
        here: "set[FakeConnection]",
        name: str,
        *,
        is_at_bootstrap: bool = False,
    ) -> None:
        self.client = ClientIdentity("10.0.0.1", name)
        self.software = JAVA
        self.accepted_s = trio.current_time()
        self.is_at_bootstrap = is_at_bootstrap
        self._here = here
        here.add(self)

    def drain(self) -> None:
        """End."""
        self._here.discard(self)


class Scene:
    """A removal with connections."""

    def __init__(self) -> None:
        self.removal = Removal()
        self.here: set[FakeConnection] = set()
        self.removal.visitors = self.here
        self.hosted: Collection[str] = ()
        self.outcome: Departures | None = None

    def connect(
        self, name: str, *, version: int | None = 13, is_at_bootstrap: bool = False
    ) -> FakeConnection:
        """A connection of a client that has asked for Metadata in this version."""
        if version is not None and not self.removal.is_running:
            self.asks(name, version)
        return FakeConnection(self.here, name, is_at_bootstrap=is_at_bootstrap)

    def asks(self, name: str, version: int = 13) -> bool:
        """Whether the client is told when it asks for Metadata."""
        return self.removal.tells(ClientIdentity("10.0.0.1", name), version)

    async def run(self) -> None:
        self.outcome = await self.removal.run(lambda: self.hosted)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_nobody_is_told_unless_the_gateway_is_being_removed(scene: Scene) -> None:
    """A client that would not understand is not told either."""
    assert not scene.asks("a")
    scene.connect("a", version=12)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.testing.wait_all_tasks_blocked()
        assert not scene.asks("a", 12)
        assert scene.asks("a")
        nursery.cancel_scope.cancel()
    assert not scene.asks("a")


async def test_the_clients_in_memory_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose their ids; those of one address push out no others."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 4)
    removal = Removal()
    removal.tells(ClientIdentity("10.0.0.1", "c"), 12)
    for number in range(9):
        removal.tells(ClientIdentity("127.0.0.1", f"c{number}"), 12)
    assert len(removal._versions) == 3
    assert hash(ClientIdentity("10.0.0.1", "c")) in removal._versions


async def test_a_client_is_told_once_a_minute(scene: Scene, autojump_clock: MockClock) -> None:
    """The minute also counts across two commands."""
    scene.connect("stays", version=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.sleep(RUN_S - 1)
        assert scene.asks("a")
        assert not scene.asks("a")
        assert scene.asks("b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.sleep(TELL_INTERVAL_S - 3)
        assert not scene.removal.is_running
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.sleep(4)
        assert scene.asks("a")
        nursery.cancel_scope.cancel()


async def test_the_connections_of_a_told_client_are_closed(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Connections that the client opens later are also closed, for a while only: it may be unable
    to go."""
    first, other = scene.connect("a"), scene.connect("b", version=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.testing.wait_all_tasks_blocked()
        assert scene.asks("a")
        await trio.sleep(1)
        assert scene.here == {other}
        again = scene.connect("a")
        await trio.sleep(1)
        assert scene.here == {other}
        await trio.sleep(CLOSING_S)
        connection = scene.connect("a")
        await trio.sleep(5)
        assert scene.here == {other, connection}
        nursery.cancel_scope.cancel()
    assert {first, again}.isdisjoint(scene.here)


async def test_clients_are_woken_so_that_they_ask(scene: Scene, autojump_clock: MockClock) -> None:
    """One at first, then more and more."""
    for number in range(7):
        scene.connect(f"c-{number}")
    old = scene.connect("old", version=12)
    left = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        for _ in range(3):
            await trio.sleep(0.9)
            left.append(len(scene.here) - 1)
        assert left == [6, 4, 0]
        old.drain()
    assert scene.outcome == Departures(is_over=True)


async def test_it_is_over_once_nobody_has_been_there_for_a_while(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """A client that is alone may come back a moment after its connections were closed."""
    scene.connect("a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.sleep(0.5)
        assert scene.here == set()
        await trio.sleep(QUIET_S / 2)
        scene.connect("a")
        assert scene.asks("a")
        await trio.sleep(QUIET_S - 1)
        assert scene.removal.is_running
    assert scene.outcome == Departures(is_over=True, redirected=1)
    assert trio.current_time() < 3 * QUIET_S


async def test_a_client_that_comes_back_stops_it(scene: Scene, autojump_clock: MockClock) -> None:
    """Its bootstrap servers still lead to the gateway, so do others' perhaps."""
    scene.connect("a")
    scene.connect("b", version=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.testing.wait_all_tasks_blocked()
        assert scene.asks("a")
        await trio.sleep(1)
        scene.connect("a", is_at_bootstrap=True)
    assert scene.outcome is not None
    (reason,) = scene.outcome.reasons
    assert reason.startswith("a at 10.0.0.1 came back: its bootstrap servers still lead to this")
    assert (scene.outcome.redirected, scene.outcome.is_over) == (1, False)


async def test_a_client_at_the_bootstrap_port_that_was_not_told_is_no_sign(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """A client that was there before is no sign either."""
    scene.connect("b", version=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.testing.wait_all_tasks_blocked()
        scene.connect("new", version=None, is_at_bootstrap=True)
        scene.connect("a", is_at_bootstrap=True)
        assert scene.asks("a")
        await trio.sleep(1)
        assert scene.removal.is_running
        nursery.cancel_scope.cancel()


async def test_a_group_that_becomes_hosted_stops_it(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """The cluster would refuse its consumers."""
    scene.connect("a", version=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.run)
        await trio.sleep(1)
        scene.hosted = ("orders",)
    assert scene.outcome is not None
    assert scene.outcome.reasons == ("orders is hosted: groupferry release orders",)


async def test_the_clients_that_are_left_are_named(scene: Scene, autojump_clock: MockClock) -> None:
    """The line says what each of them needs."""
    scene.connect("old", version=12)
    scene.connect("silent", version=None)
    scene.connect("new")
    assert len(scene.removal.left_behind()) == 2
    await scene.run()
    assert scene.outcome is not None
    assert scene.outcome.left == (
        "old at 10.0.0.1 (apache-kafka-java 4.3.1) needs a restart: it asks for Metadata v12",
        "silent at 10.0.0.1 (apache-kafka-java 4.3.1) has not asked for Metadata yet",
    )


async def test_a_real_connection_is_told_and_closed() -> None:
    """The connection is closed to wake the client, then told, then closed again. A client that
    returns to the bootstrap port ends the removal and is served again."""
    broker, removal = FakeBroker(), Removal()
    broker.versions = {**broker.versions, ApiKey.METADATA: (0, 12)}
    request = MetadataRequest(topics=())
    outcomes: list[Departures] = []

    async def run() -> None:
        outcomes.append(await removal.run(tuple))

    async with (
        running_fake_broker(broker),
        running_gateway([broker.address], removal=removal) as gateway,
        trio.open_nursery() as nursery,
    ):
        async with open_wire(gateway.address) as client:
            assert (await client.ask(request, 13)).error_code == 0
            nursery.start_soon(run)
            assert await client.stream.receive_some() == b""
        async with open_wire(gateway.address) as client:
            assert (await client.ask(request, 13)).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
            assert await client.stream.receive_some() == b""
        async with open_wire(gateway.address) as client:
            assert (await client.ask(request, 13)).error_code == 0
            await until(lambda: bool(outcomes))
            assert (await client.ask(request, 13)).error_code == 0
    assert outcomes[0].redirected == 1
    assert "still lead to this gateway" in outcomes[0].reasons[0]
