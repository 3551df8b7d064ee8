"""Connections break, and the gateway notices it."""

from dataclasses import replace

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
