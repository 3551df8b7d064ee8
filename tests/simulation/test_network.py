"""Connections break, and the gateway notices it."""

from dataclasses import replace

import pytest

from tests.simulation import network
from tests.simulation.network import BROKERS, LATE_MS_MAX, NOTICE_MS_MAX, Connection
from tests.simulation.stage import PEACEFUL, Stage


def test_a_paused_gateway_relays_nothing_of_a_client_that_has_gone_meanwhile() -> None:
    """The relayed request would otherwise never end, and no adoption could begin (seed 493)."""
    stage = Stage(plan=replace(PEACEFUL, hosts_all=False))
    client = stage.classic("c1")
    stage.wait(10_000)
    stage.driver.pause(6_000)
    stage.wait(3_000)  # a heartbeat waits
    client.die("it is killed")
    stage.wait(6_000)
    assert not stage.driver.process.relayed


def test_a_client_comes_back_to_its_older_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one to each broker, as the coordinator may move there and back."""
    monkeypatch.setattr(network, "HELD_UP_RATE", 0)
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    numbers = []
    for _ in range(8):
        client._line.turn()
        client.beat()
        stage.wait(100)
        connection = stage.driver.process.spoke_on["n1"]
        assert isinstance(connection, Connection)
        numbers.append(connection.number)
    assert len({*numbers}) <= BROKERS
    assert numbers != sorted(numbers), "it is back on an older one"
    stage.wait()
    assert client.is_settled


def test_a_connection_that_is_held_up_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its client sends after it has come back waits behind what it had sent before."""
    monkeypatch.setattr(network, "HELD_UP_RATE", 1)
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    client.beat()
    line = client._line
    first = line._connection
    line.turn()
    stage.wait(NOTICE_MS_MAX)
    assert line._connection is not first
    while line._connection is not first:
        line.turn()
    client.beat()
    stage.wait(LATE_MS_MAX)
    assert client.is_settled
