"""Processes end and begin, on one log and in front of one cluster."""

from dataclasses import replace

from coordinator.group.consumer_group import ConsumerGroup
from tests.simulation.driver import LEASE_MS_MAX
from tests.support.simulation import PEACEFUL, Stage


def members_of(stage: Stage) -> list[str]:
    """The members of the group."""
    group = stage.driver.engine.state.group
    return sorted(group.members) if group is not None else []


def test_a_restart_keeps_the_members() -> None:
    """The next process loads the log and takes the anchor's place."""
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    (anchor,) = stage.cluster.group.anchors
    stage.driver.crash(500)
    stage.wait()
    assert client.is_settled
    assert members_of(stage) == ["n1"]
    assert stage.driver.process.number == 2
    assert anchor not in stage.cluster.group.anchors


def test_the_engine_remains_visible_until_the_next_one_is_loaded() -> None:
    """Checks of clients do not stop while the gateway is down."""
    stage = Stage()
    stage.native("n1")
    stage.wait()
    stage.driver.crash(1_000)
    assert members_of(stage) == ["n1"]
    assert not stage.driver.is_up


def test_clocks_differ_between_processes() -> None:
    """Sessions restart by the new clock."""
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    client.freeze()
    stage.driver.crash(100, clock_ahead_ms=-600_000)
    stage.wait(1_000)
    assert stage.driver.now_ms == stage.world.now_ms - 600_000
    assert members_of(stage) == ["n1"]
    stage.wait(5_200)
    assert members_of(stage) == []


def test_a_process_that_lost_its_log_ends_within_its_lease() -> None:
    """Its clients go on with the other process."""
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    before = stage.driver.process
    stage.driver.take_over()
    seen = [(before.is_alive, before.may_answer)]
    stage.wait(LEASE_MS_MAX)
    seen.append((before.is_alive, before.may_answer))
    assert seen == [(True, False), (False, False)]
    stage.wait()
    assert client.is_settled
    assert isinstance(stage.driver.engine.state.group, ConsumerGroup)
    assert stage.driver.process.number == 2


def test_requests_wait_while_the_process_is_paused() -> None:
    """They are handled afterwards, and nobody is fenced for the pause."""
    stage = Stage(plan=replace(PEACEFUL, has_pauses=True))
    client = stage.native("n1")
    stage.wait()
    stage.driver.pause(8_000)
    stage.wait(7_900)
    assert stage.driver.process.is_paused
    stage.wait()
    assert client.is_settled
    assert members_of(stage) == ["n1"]
    assert stage.world.counts["removed owners"] == 0
