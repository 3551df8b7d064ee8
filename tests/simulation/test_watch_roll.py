"""Hold, pause and rest are checked from step to step."""

from dataclasses import replace

import pytest

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.config import RollPolicy
from coordinator.interface.events import ConfigsReceived
from coordinator.interface.records import TargetAssignmentMetadata
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.random_actions import RandomActions
from tests.simulation.watch_roll import RollWatch
from tests.support.simulation import PEACEFUL, Stage

HELD = replace(PEACEFUL.config, native_members_max=0)
PAUSED = replace(HELD, is_paused=True)


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
    actions._ask_as_admin(ConfigsReceived(token=token, policy=RollPolicy.HOLD))
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
