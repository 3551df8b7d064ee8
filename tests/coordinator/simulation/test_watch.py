"""The watch sees each step; what one state shows is in `test_invariants.py`."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.engine import GroupEngine, Step
from coordinator.records import CurrentAssignment
from coordinator.replies import ConsumerHeartbeatReply
from coordinator.simulation.invariants import BrokenInvariantError, Invariant
from coordinator.volatile import CommitEnded, CommitStarted
from tests.support.simulation import Stage


def play(monkeypatch: pytest.MonkeyPatch, name: str, planted: Any) -> BrokenInvariantError:
    """Two members, one of which moves partitions to the other, with something planted in the
    engine; what the watch finds."""
    monkeypatch.setattr(GroupEngine, name, planted)
    return broken_by(Stage())


def broken_by(stage: Stage) -> BrokenInvariantError:
    """What the watch finds."""
    stage.native("n1")
    stage.world.after(5_000, stage.native, "n2")
    with pytest.raises(BrokenInvariantError) as broken:
        stage.wait(20_000)
    return broken.value


def test_an_answer_that_never_comes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither answered nor parked."""
    handle = GroupEngine.handle

    def planted(engine: GroupEngine, *args: Any, **how: Any) -> Step:
        return replace(handle(engine, *args, **how), replies=())

    assert play(monkeypatch, "handle", planted).invariant is Invariant.ANSWERS


def test_an_answer_that_is_not_true_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch that the member does not have."""
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


def test_a_decision_that_changes_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`handle` only decides."""
    handle = GroupEngine.handle

    def planted(engine: GroupEngine, *args: Any, **how: Any) -> Step:
        engine.state.config_overrides = {**engine.state.config_overrides, "touched": 1}
        return handle(engine, *args, **how)

    assert play(monkeypatch, "handle", planted).invariant in (Invariant.PURE, Invariant.REPLAY)


def test_a_record_that_is_not_logged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be gone after a restart."""

    def planted(step: Step) -> tuple[Any, ...]:
        return tuple(
            record
            for record in step.records
            if hasattr(record, "key") and not isinstance(record, CurrentAssignment)
            if not hasattr(record, "at_ms")
        )

    monkeypatch.setattr(Step, "durable", property(planted))
    assert broken_by(Stage()).invariant is Invariant.REPLAY


def test_a_commit_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the cluster has yet to store it."""
    apply = GroupEngine.apply

    def planted(engine: GroupEngine, record: Any) -> None:
        apply(engine, record)
        if isinstance(record, CommitStarted):
            apply(engine, CommitEnded(record.commit))

    assert play(monkeypatch, "apply", planted).invariant is Invariant.OFFSETS
