"""A member that may own partitions is not given up."""

from typing import Any

import pytest

from gateway.hosting import recall
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.leader import STICKY
from tests.support.simulation import Stage

COOPERATIVE: dict[str, Any] = {"protocols": (STICKY,), "is_cooperative": True}


def released() -> Stage:
    """A group of a cooperative client that has owned everything, and is released."""
    stage = Stage()
    stage.classic("c1", **COOPERATIVE)
    stage.wait()
    stage.driver.process.release()
    return stage


def test_members_give_up_before_the_cluster_has_them() -> None:
    stage = released()
    stage.wait(20_000)
    assert stage.world.counts["releases"] == 1
    assert stage.cluster.group.has_other_members
    assert stage.clients[0].is_settled


def test_a_member_that_is_let_go_with_its_partitions_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recall, "_owns_nothing", lambda _event: True)
    stage = released()
    with pytest.raises(BrokenInvariantError) as broken:
        stage.wait(20_000)
    assert broken.value.invariant is Invariant.MOVES
