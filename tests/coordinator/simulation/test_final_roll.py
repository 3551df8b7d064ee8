"""The calm roll after the chaos."""

import pytest

from coordinator.classic.group import ClassicGroup
from coordinator.simulation.final_roll import roll_to_classic
from coordinator.simulation.invariants import BrokenInvariantError, Invariant
from coordinator.simulation.settling import settle
from tests.support.simulation import Stage


def a_stage_that_rolls() -> Stage:
    """Its dice decide so; one static and one dynamic member."""
    stage = Stage()
    stage.native("n10", instance_id="i1")
    stage.native("n11")
    settle(stage)
    stage.world.chance = lambda probability: probability > 1  # type: ignore[method-assign]
    return stage


def test_everybody_is_classic_in_the_end() -> None:
    """And the group with them, without anybody having lost a partition."""
    stage = a_stage_that_rolls()
    roll_to_classic(stage)
    assert stage.world.counts["rolls to classic"] == 1
    assert {client.kind for client in stage.clients if not client.is_dead} == {"classic"}
    assert isinstance(stage.driver.engine.state.group, ClassicGroup)
    topic = stage.cluster.topics.by_name["foo"]
    assert topic.partition_count == 5
    assert sum(len(client.claims) for client in stage.clients) == 5


def test_a_roll_that_leaves_something_undone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the last native member comes back as a classic one, and then nobody looks at topics."""
    monkeypatch.setattr("coordinator.classic.heartbeat.notice_unwatched_change", lambda _: False)
    with pytest.raises(BrokenInvariantError, match="unowned: ") as broken:
        roll_to_classic(a_stage_that_rolls())
    assert broken.value.invariant is Invariant.LIVENESS
