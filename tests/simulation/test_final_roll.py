"""The roll without faults at the end of a run."""

import pytest

from coordinator.group.classic_group import ClassicGroup
from tests.simulation.classic_client import ClassicClient
from tests.simulation.final_roll import roll_to_classic
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.settling import settle
from tests.support.simulation import Stage


def a_stage_that_rolls() -> Stage:
    """A stage whose dice choose the roll, with one static and one dynamic member."""
    stage = Stage()
    stage.native("n10", instance_id="i1")
    stage.native("n11")
    settle(stage)
    stage.world.chance = lambda probability: probability > 1  # type: ignore[method-assign]
    return stage


def test_the_roll_makes_all_members_classic() -> None:
    """The group becomes classic as well, and no member loses a partition."""
    stage = a_stage_that_rolls()
    roll_to_classic(stage)
    assert stage.world.counts["rolls to classic"] == 1
    assert all(isinstance(each, ClassicClient) for each in stage.clients if not each.is_dead)
    assert isinstance(stage.driver.engine.state.group, ClassicGroup)
    topic = stage.cluster.topics.by_name["foo"]
    assert topic.partition_count == 5
    assert sum(len(client.claims) for client in stage.clients) == 5


def test_the_roll_finds_a_group_that_misses_topic_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last native member returns as classic, and then no member watches the topics."""
    monkeypatch.setattr("coordinator.classic.heartbeat.notice_unwatched_change", lambda _: False)
    with pytest.raises(BrokenInvariantError, match="unowned: ") as broken:
        roll_to_classic(a_stage_that_rolls())
    assert broken.value.invariant is Invariant.LIVENESS
