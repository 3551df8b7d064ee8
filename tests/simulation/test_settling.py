"""The group settles once the faults stop."""

import pytest

from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.settling import settle
from tests.support.simulation import Stage


def test_every_member_gets_its_share() -> None:
    """This holds for both protocols."""
    stage = Stage()
    stage.native("n10")
    stage.classic("c10")
    settle(stage)
    owned = [partition for client in stage.clients for partition in client.claims]
    assert len(owned) == len(set(owned))
    assert 0 < stage.world.counts["convergence ms"] < 10_000


def test_a_client_that_never_settles_is_noticed() -> None:
    """The client sends no heartbeats, so it loses its membership."""
    stage = Stage()
    client = stage.native("n10")
    client.beat = lambda: None  # type: ignore[method-assign]
    with pytest.raises(BrokenInvariantError) as broken:
        settle(stage)
    assert broken.value.invariant is Invariant.LIVENESS


def test_partitions_without_an_owner_are_noticed() -> None:
    """The client does not take its assignment, but reports that it has settled."""
    stage = Stage()
    client = stage.classic("c10")
    client.assign = lambda *_args, **_how: None  # type: ignore[method-assign]
    with pytest.raises(BrokenInvariantError, match="unowned: ") as broken:
        settle(stage)
    assert broken.value.invariant is Invariant.LIVENESS
