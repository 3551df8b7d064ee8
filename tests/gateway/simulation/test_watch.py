"""The checks of steps. `test_invariants.py` has those of single states."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.engine import GroupEngine, Step
from coordinator.interface.records import CurrentAssignment
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.volatile_records import CommitEnded, CommitStarted
from gateway.simulation.invariants import BrokenInvariantError, Invariant
from gateway.simulation.process import WatchedEngine
from tests.support.simulation import PEACEFUL, Stage


def play(monkeypatch: pytest.MonkeyPatch, name: str, planted: Any) -> BrokenInvariantError:
    """Plant a bug in the engine, then let a second member take partitions from the first. Returns
    the broken invariant."""
    monkeypatch.setattr(GroupEngine, name, planted)
    return broken_by(Stage())


def broken_by(stage: Stage) -> BrokenInvariantError:
    """The invariant that breaks."""
    stage.native("n1")
    stage.world.after(5_000, stage.native, "n2")
    with pytest.raises(BrokenInvariantError) as broken:
        stage.wait(20_000)
    return broken.value


def test_a_missing_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is neither answered nor parked."""
    handle = GroupEngine.handle

    def planted(engine: GroupEngine, *args: Any, **how: Any) -> Step:
        return replace(handle(engine, *args, **how), replies=())

    assert play(monkeypatch, "handle", planted).invariant is Invariant.ANSWERS


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer has a wrong epoch."""
    handle = GroupEngine.handle

    def planted(engine: GroupEngine, *args: Any, **how: Any) -> Step:
        step = handle(engine, *args, **how)
        replies = tuple(
            (token, replace(reply, member_epoch=99))
            if isinstance(reply, ConsumerHeartbeatReply)
            else (token, reply)
            for token, reply in step.replies
        )
        return replace(step, replies=replies)

    assert play(monkeypatch, "handle", planted).invariant is Invariant.CLASSIC_REPLIES


def test_a_decision_that_changes_the_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`handle` must only decide."""
    handle = GroupEngine.handle

    def planted(engine: GroupEngine, *args: Any, **how: Any) -> Step:
        engine.state.config_overrides = {**engine.state.config_overrides, "touched": 1}
        return handle(engine, *args, **how)

    assert play(monkeypatch, "handle", planted).invariant in (Invariant.PURE, Invariant.REPLAY)


def test_a_decision_on_an_older_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of the step before are missing."""
    apply = GroupEngine.apply

    def planted(engine: WatchedEngine, record: Any) -> None:
        apply(engine, record)
        engine.records_applied += isinstance(record, CurrentAssignment)

    monkeypatch.setattr(WatchedEngine, "apply", planted)
    assert broken_by(Stage()).invariant is Invariant.BATCHED


def test_an_unlogged_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart would forget it."""
    handle = GroupEngine.handle

    def planted(engine: GroupEngine, *args: Any, **how: Any) -> Step:
        step = handle(engine, *args, **how)
        logged = (r for r in step.durable if not isinstance(r, CurrentAssignment))
        return replace(step, durable=tuple(logged))

    assert play(monkeypatch, "handle", planted).invariant is Invariant.REPLAY


def test_a_forgotten_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster has not stored it yet."""
    apply = GroupEngine.apply

    def planted(engine: GroupEngine, record: Any) -> None:
        apply(engine, record)
        if isinstance(record, CommitStarted):
            apply(engine, CommitEnded(record.commit))

    monkeypatch.setattr(GroupEngine, "apply", planted)
    slow = replace(PEACEFUL, commit_ms_max=3_000)
    assert broken_by(Stage(plan=slow)).invariant is Invariant.OFFSETS
