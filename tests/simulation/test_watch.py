"""The checks of steps. `test_invariants.py` has those of single states."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from coordinator.engine import GroupEngine, Step
from coordinator.interface.events import OffsetCommitReceived
from coordinator.interface.records import CurrentAssignment
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.volatile_records import CommitEnded, CommitStarted
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.network import ADMIN, Ask, Line
from tests.simulation.process import WatchedEngine
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
        step = handle(engine, *args, **how)
        return replace(step, replies=()) if isinstance(engine, WatchedEngine) else step

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


def test_nobody_looks_for_a_consumer_in_the_cluster_while_all_members_are_silent() -> None:
    """The gateway has restarted, and the end of a session is the first that happens (seed
    155805)."""
    stage = Stage()
    clients = [stage.classic(f"c{n}", session_timeout_ms=10_000 * n) for n in (1, 2)]
    stage.wait()
    for client in clients:
        client.freeze()
    stage.driver.crash(10)
    stage.cluster.intrude()
    stage.wait(15_000)
    group = stage.driver.engine.state.group
    assert group is not None
    assert len(group.members) == 1


def test_a_late_commit_of_an_admin_concerns_no_empty_group() -> None:
    """The anchor has fenced it for the last members, and will for the next (seed 92800)."""
    stage = Stage(plan=replace(PEACEFUL, lost_answer_rate=1.0, anchor_linger_ms=10))
    commit = OffsetCommitReceived(
        token=stage.network.next_token(),
        version=9,
        member_id="",
        instance_id=None,
        epoch=-1,
        partitions=frozenset(stage.foo(0)),
    )
    nothing = Mock()
    positions = dict.fromkeys(commit.partitions, 1)
    Line(stage.network, ADMIN).send(
        Ask(request=commit, heard=nothing, lost=nothing, positions=positions)
    )
    stage.wait(200)
    stage.cluster.lost_answer_rate = 0.0
    member = stage.classic("c1")
    while not member.claims:
        stage.wait(10)
    member.close()
    while not stage.cluster.may_store(bool):
        stage.wait(10)
    stage.classic("c2", join_version=4)
    stage.wait(30)
    assert stage.cluster.may_store(bool)


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
