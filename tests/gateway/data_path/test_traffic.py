"""How much passes on connections, open and ended."""

from dataclasses import dataclass

import pytest
import trio
from trio.testing import MockClock

from gateway.data_path import traffic as module
from gateway.data_path.removal import ClientIdentity
from gateway.data_path.traffic import TOGETHER_S, Rates, Traffic

CLIENT = ClientIdentity("10.0.0.1", "c")


@dataclass
class FakeFlow:
    """A connection that has moved so much."""

    moved_bytes: tuple[int, int]
    client: ClientIdentity = CLIENT
    accepted_s: float = 0.0
    fetches: int = 0


async def test_the_totals_are_of_open_and_ended_connections(mock_clock: MockClock) -> None:
    """Each counts once."""
    traffic = Traffic()
    one, other = FakeFlow((1, 10)), FakeFlow((2, 20))
    traffic.open = [one, other]
    assert traffic.totals() == (3, 30)
    traffic.open = [other]
    traffic.record_end(one)
    assert traffic.totals() == (3, 30)


async def test_the_rates_of_a_client_are_before_and_after_its_restart(
    mock_clock: MockClock,
) -> None:
    """Rates are taken over the life of its connections. Those that end together are one restart."""
    traffic = Traffic()
    assert (traffic.rates_before(CLIENT), traffic.rates_now(CLIENT)) == (None, None)
    mock_clock.jump(100)
    for moved in ((0, 600), (0, 400)):
        traffic.record_end(FakeFlow(moved, fetches=20))
    traffic.open = [FakeFlow((0, 30), accepted_s=trio.current_time(), fetches=5)]
    mock_clock.jump(10)
    assert traffic.rates_before(CLIENT) == Rates(10.0, 0.4)
    assert traffic.rates_now(CLIENT) == Rates(3.0, 0.5)
    mock_clock.jump(TOGETHER_S + 1)
    traffic.record_end(FakeFlow((0, 142), accepted_s=trio.current_time() - 71))
    assert traffic.rates_before(CLIENT) == Rates(2.0, 0.0)


async def test_the_clients_in_memory_have_a_bound(
    monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """The first one of the same address is forgotten, and its bytes still count."""
    monkeypatch.setattr(module, "CLIENTS_MAX", 4)
    traffic = Traffic()
    traffic.record_end(FakeFlow((1, 1), ClientIdentity("other", "z")))
    for name in "abc":
        traffic.record_end(FakeFlow((1, 1), ClientIdentity("h", name)))
    forgotten = [name for name in "abc" if traffic.rates_before(ClientIdentity("h", name)) is None]
    assert forgotten == ["a"]
    assert traffic.rates_before(ClientIdentity("other", "z")) is not None
    assert traffic.totals() == (4, 4)
