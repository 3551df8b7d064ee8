"""Liveness, once there are no more faults."""

import pytest

from coordinator.simulation.invariants import BrokenInvariantError, Invariant
from coordinator.simulation.settling import settle
from tests.support.simulation import Stage


def test_everybody_gets_its_part() -> None:
    """Whatever they speak."""
    stage = Stage()
    stage.native("n10")
    stage.classic("c10")
    settle(stage)
    owned = [partition for client in stage.clients for partition in client.claims]
    assert len(owned) == len(set(owned))
    assert 0 < stage.world.counts["convergence ms"] < 10_000


def test_a_client_that_never_settles_is_noticed() -> None:
    """Here one that sends no heartbeats, and so is no member any more."""
    stage = Stage()
    client = stage.native("n10")
    client.beat = lambda: None  # type: ignore[method-assign]
    with pytest.raises(BrokenInvariantError) as broken:
        settle(stage)
    assert broken.value.invariant is Invariant.LIVENESS


def test_partitions_that_nobody_gets_are_noticed() -> None:
    """Here a client that does not take what it is given, and says that all is well."""
    stage = Stage()
    client = stage.classic("c10")
    client.assign = lambda *_args, **_how: None  # type: ignore[method-assign]
    with pytest.raises(BrokenInvariantError, match="unowned: ") as broken:
        settle(stage)
    assert broken.value.invariant is Invariant.LIVENESS
