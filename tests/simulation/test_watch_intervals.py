"""The intervals of targets and regular expressions."""

from dataclasses import replace

import pytest

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import TimePassed
from coordinator.interface.records import TargetAssignmentMetadata
from coordinator.interface.replies import ConsumerHeartbeatReply
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.support.given_requests import NATIVE_BEAT
from tests.support.simulation import PEACEFUL, Stage

BEAT = replace(NATIVE_BEAT, token=-1)
ACCEPTED = Step(replies=((-1, ConsumerHeartbeatReply(member_id="n1", member_epoch=1)),))
PATIENT = replace(PEACEFUL.config, consumer_assignment_interval_ms=15_000)


def one_native_member(topic_regex: str | None = None) -> Stage:
    """At rest."""
    stage = Stage()
    stage.native("n1", topic_regex=topic_regex)
    stage.wait()
    return stage


def test_targets_too_close_together_are_found() -> None:
    """The group's current interval applies."""
    stage = one_native_member()
    state, now_ms = stage.driver.engine.state, stage.driver.now_ms
    computed = TargetAssignmentMetadata(epoch=2, timestamp_ms=now_ms, assignor="uniform")
    intervals, step = stage.watch.intervals, Step(records=(computed,))
    intervals.after_step(state, TimePassed(), step, PEACEFUL.config, now_ms)
    with pytest.raises(BrokenInvariantError) as broken:
        intervals.after_step(state, TimePassed(), step, PATIENT, now_ms)
    assert broken.value.invariant is Invariant.INTERVALS


def test_an_overdue_target_is_found() -> None:
    """This includes a last target with a time ahead of the clock."""
    stage = one_native_member()
    state, now_ms = stage.driver.engine.state, stage.driver.now_ms
    assert isinstance(state.group, ConsumerGroup)
    state.group.epoch += 1
    intervals = stage.watch.intervals
    intervals.after_step(state, BEAT, ACCEPTED, PATIENT, now_ms)
    for at_ms in (now_ms + 15_000, now_ms - 60_000):
        with pytest.raises(BrokenInvariantError, match="no target was computed") as broken:
            intervals.after_step(state, BEAT, ACCEPTED, PATIENT, at_ms)
        assert broken.value.invariant is Invariant.INTERVALS


def test_a_target_of_the_same_step_delays_the_next() -> None:
    """A member that takes its place back and subscribes to more begins two epochs at once."""
    stage = one_native_member()
    state, later_ms = stage.driver.engine.state, stage.driver.now_ms + 60_000
    assert isinstance(state.group, ConsumerGroup)
    state.group.epoch += 2
    given_back = TargetAssignmentMetadata(epoch=3, timestamp_ms=later_ms, assignor="uniform")
    step = replace(ACCEPTED, records=(given_back,))
    stage.watch.intervals.after_step(state, BEAT, step, PATIENT, later_ms)


def test_outdated_regular_expressions_are_found() -> None:
    """A heartbeat reveals them, unless a resolution is running."""
    stage = one_native_member("fo.")
    state, now_ms = stage.driver.engine.state, stage.driver.now_ms
    config = replace(PEACEFUL.config, consumer_regex_refresh_interval_ms=20_000)
    intervals = stage.watch.intervals
    intervals.after_step(state, BEAT, ACCEPTED, config, now_ms + 10_000)
    intervals.after_step(state, TimePassed(), Step(), config, now_ms + 30_000)
    with pytest.raises(BrokenInvariantError, match="were resolved at") as broken:
        intervals.after_step(state, BEAT, ACCEPTED, config, now_ms + 30_000)
    assert broken.value.invariant is Invariant.INTERVALS
