"""Hold, pause and rest are checked from step to step."""

from contextlib import nullcontext
from dataclasses import replace
from uuid import UUID

import pytest

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.events import (
    ConfigsReceived,
    ConsumerHeartbeatReceived,
    LeaverStayed,
)
from coordinator.interface.records import TargetAssignmentMetadata
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.roll_policy import RollMode, RollPolicy
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.network import Connection
from tests.simulation.random_actions import RandomActions
from tests.simulation.watch_roll import RollWatch
from tests.simulation.world import START_MS
from tests.support.simulation import PEACEFUL, Stage

HELD = replace(PEACEFUL.config, roll_policy=RollPolicy(native_members_max=0))
PAUSED = replace(HELD, roll_policy=RollPolicy(native_members_max=0, is_paused=True))


def classic_at_rest() -> Stage:
    """A classic group with one member."""
    stage = Stage()
    stage.classic("c1")
    stage.wait()
    return stage


def after_a_native_client_joined(stage: Stage) -> RollWatch:
    """What was there before it did."""
    roll = RollWatch()
    assert isinstance(stage.driver.engine.state.group, ClassicGroup)
    roll.look_at(stage.driver.engine.state)
    stage.native("n1")
    stage.wait()
    return roll


def test_a_conversion_of_a_held_group_is_found() -> None:
    """Without a hold it is none."""
    stage = classic_at_rest()
    roll = after_a_native_client_joined(stage)
    state, now_ms = stage.driver.engine.state, stage.driver.now_ms
    with pytest.raises(BrokenInvariantError) as broken:
        roll.after_step(state, Step(), HELD, now_ms)
    assert broken.value.invariant is Invariant.HELD
    roll.after_step(state, Step(), HELD, now_ms)  # the member was there before


def test_a_conversion_of_a_resting_group_is_found() -> None:
    """It may be converted as soon as its rest is over."""
    stage = classic_at_rest()
    state = stage.driver.engine.state
    state.conversions = replace(state.conversions, rests_until_ms=stage.driver.now_ms + 60_000)
    roll = RollWatch()
    roll.look_at(state)
    until_ms, state.conversions = state.conversions.rests_until_ms, type(state.conversions)()
    stage.native("n1")
    stage.wait()
    with pytest.raises(BrokenInvariantError) as broken:
        roll.after_step(stage.driver.engine.state, Step(), PEACEFUL.config, until_ms - 1)
    assert broken.value.invariant is Invariant.HELD


def test_a_target_of_a_paused_group_is_found() -> None:
    """One that a conversion takes over is none."""
    state, roll = Stage().driver.engine.state, RollWatch()
    computed = TargetAssignmentMetadata(epoch=2, timestamp_ms=1, assignor="uniform")
    roll.after_step(state, Step(records=(replace(computed, assignor=None),)), PAUSED, 1)
    roll.after_step(state, Step(records=(computed,)), HELD, 1)
    with pytest.raises(BrokenInvariantError) as broken:
        roll.after_step(state, Step(records=(computed,)), PAUSED, 1)
    assert broken.value.invariant is Invariant.PAUSED


def test_a_held_group_converts_once_it_is_allowed_to() -> None:
    """A native client that comes too early ends; the next one joins."""
    stage = classic_at_rest()
    actions: RandomActions = stage.random_actions
    token = stage.network.next_token()
    actions._ask_as_admin(ConfigsReceived(token=token, policy=RollMode.HOLD))
    stage.wait()
    early = stage.native("n1")
    stage.wait()
    assert early.is_dead
    assert isinstance(stage.driver.engine.state.group, ClassicGroup)
    actions.allow()
    stage.wait()
    late = stage.native("n2")
    stage.wait()
    assert late.claims


ROLLED = replace(
    PEACEFUL,
    config=replace(
        PEACEFUL.config,
        consumer_heartbeat_interval_ms=2_000,
        replacement_grace_ms=60_000,
        rolled_since_ms=START_MS,
        unsettled_heartbeat_interval_ms=1_000,
    ),
)


@pytest.mark.parametrize("is_native", [True, False])
def test_the_place_of_a_client_that_polled_too_late_ends(is_native: bool) -> None:
    """It keeps its connection, so no replacement is on its way. Until then its place is kept."""
    stage = Stage(plan=ROLLED)
    start = stage.native if is_native else stage.classic
    late, other = start("c1"), start("c2")
    stage.wait()
    member_id = late.member_id
    late.stall(600_000)
    stage.wait(500)
    assert member_id in stage.driver.engine.state.places
    stage.wait()
    assert not stage.driver.engine.state.places
    assert other.claims.keys() == stage.foo(0, 1, 2, 3)


@pytest.mark.parametrize("is_native", [True, False])
def test_the_place_of_a_client_that_closes_is_kept(is_native: bool) -> None:
    stage = Stage(plan=ROLLED)
    start = stage.native if is_native else stage.classic
    closing, other = start("c1"), start("c2")
    stage.wait()
    closing.close()
    stage.wait()
    assert closing.is_dead
    assert stage.driver.engine.state.places
    assert len(other.claims) == 2


def test_a_place_that_outlives_the_sight_of_its_client_is_found() -> None:
    stage = Stage(plan=ROLLED)
    late, _ = stage.native("n1"), stage.native("n2")
    stage.wait()
    late.stall(600_000)
    stage.wait(500)
    with pytest.raises(BrokenInvariantError) as broken:
        RollWatch().after_event(
            stage.driver.engine.state, LeaverStayed(late.member_id), Step(), ROLLED.config
        )
    assert broken.value.invariant is Invariant.LEFT


@pytest.mark.parametrize(("calls_within_ms", "is_found"), [(100, False), (101, True)])
def test_a_short_interval_on_a_slow_connection_is_found(
    calls_within_ms: int, is_found: bool
) -> None:
    stage = Stage(plan=ROLLED)
    heartbeat = ConsumerHeartbeatReceived(
        token=1,
        version=1,
        member_id="m",
        member_epoch=3,
        client_id="c",
        client_host="/127.0.0.1",
        fresh_id=UUID(int=0),
        calls_within_ms=calls_within_ms,
    )
    reply = ConsumerHeartbeatReply(member_id="m", member_epoch=3, heartbeat_interval_ms=1_000)
    step, state = Step(replies=((1, reply),)), stage.driver.engine.state
    with pytest.raises(BrokenInvariantError) if is_found else nullcontext():
        RollWatch().after_event(state, heartbeat, step, ROLLED.config)


def test_a_connection_tells_how_long_its_commits_took() -> None:
    """So its member gets the usual interval while the group is rolled."""
    stage = Stage(plan=replace(ROLLED, commit_ms_max=1_000))
    stage.native("n1")
    stage.wait(20_000)
    (connection,) = stage.driver.process.spoke_on.values()
    assert isinstance(connection, Connection)
    assert connection.calls_within_ms > 100
