"""Epochs, sessions and the policy are checked from step to step."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import MigrationPolicy
from coordinator.interface.events import OffsetCommitReceived, TimePassed
from coordinator.interface.records import MemberMetadata, RemovalCause
from coordinator.interface.replies import ConsumerHeartbeatReply, OffsetVerdict
from coordinator.interface.volatile_records import SyncReleased
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.support.given_requests import NATIVE_BEAT
from tests.support.simulation import PEACEFUL, Stage


def two_members() -> tuple[Stage, ConsumerGroup]:
    """A mixed group at rest."""
    stage = Stage()
    stage.native("n1")
    stage.wait(1_000)
    stage.classic("c1", instance_id="i1")
    stage.wait()
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    return stage, group


def go_back(stage: Stage, group: ConsumerGroup) -> None:
    group.epoch -= 1


def member_goes_back(stage: Stage, group: ConsumerGroup) -> None:
    current = group.assignments["n1"]
    group.assignments.put("n1", replace(current, member_epoch=current.member_epoch - 1))


@pytest.mark.parametrize("damage", [go_back, member_goes_back])
def test_decreasing_epochs_are_found(damage: Callable[[Stage, ConsumerGroup], None]) -> None:
    """The group epoch or a member epoch decreases."""
    stage, group = two_members()
    damage(stage, group)
    with pytest.raises(BrokenInvariantError) as broken:
        stage.watch.epochs.after_step(stage.driver.engine.state, Step(), stage.driver.config)
    assert broken.value.invariant is Invariant.EPOCHS


def test_a_mixed_group_against_the_policy_is_found() -> None:
    """A group that was mixed before is allowed."""
    stage, _group = two_members()
    config = replace(PEACEFUL.config, consumer_migration_policy=MigrationPolicy.DISABLED)
    state = stage.driver.engine.state
    stage.watch.epochs.after_step(state, Step(), config)
    stage.watch.epochs.facts = replace(stage.watch.epochs.facts, has_classic=False)
    with pytest.raises(BrokenInvariantError) as broken:
        stage.watch.epochs.after_step(state, Step(), config)
    assert broken.value.invariant is Invariant.POLICY


def test_a_silent_member_that_remains_is_found() -> None:
    """It was silent for longer than its session and its rebalance timeout."""
    stage, _group = two_members()
    state, config, now_ms = stage.driver.engine.state, stage.driver.config, stage.world.now_ms
    silence = stage.watch.silence
    silence.after_step(state, TimePassed(), Step(), config, now_ms + 5_000)
    with pytest.raises(BrokenInvariantError, match="has been silent for") as broken:
        silence.after_step(state, TimePassed(), Step(), config, now_ms + 12_000)
    assert broken.value.invariant is Invariant.SILENCE


def test_an_early_removal_is_found() -> None:
    """The member's session has not ended."""
    stage, _group = two_members()
    gone = MemberMetadata(member_id="n1", value=None, cause=RemovalCause.SESSION_EXPIRED)
    state, config, now_ms = stage.driver.engine.state, stage.driver.config, stage.world.now_ms
    with pytest.raises(BrokenInvariantError, match="n1 was fenced after"):
        stage.watch.silence.after_step(state, TimePassed(), Step(records=(gone,)), config, now_ms)


def test_a_member_that_has_not_left_is_missed() -> None:
    """Only its own request ends it as if it had left."""
    stage = Stage()
    state, config = stage.driver.engine.state, stage.driver.config
    gone = MemberMetadata(member_id="n1", value=None, cause=RemovalCause.LEFT)
    with pytest.raises(BrokenInvariantError, match="n1 has not left"):
        stage.watch.silence.after_step(state, TimePassed(), Step(records=(gone,)), config, 0)


@pytest.mark.parametrize(
    ("is_transactional", "error"),
    [(False, ErrorCode.REBALANCE_IN_PROGRESS), (True, ErrorCode.NONE)],
)
def test_a_refused_or_transactional_commit_is_no_sign_of_life(
    error: ErrorCode, *, is_transactional: bool
) -> None:
    """While a generation is not complete, the group refuses even its members' commits."""
    stage = Stage()
    client = stage.classic("c1")
    stage.wait()
    state, config, now_ms = stage.driver.engine.state, stage.driver.config, stage.world.now_ms
    commit = OffsetCommitReceived(
        token=-1,
        version=9,
        member_id=client.member_id,
        instance_id=None,
        epoch=client.generation,
        partitions=frozenset(),
    )
    silence, mute = stage.watch.silence, replace(commit, is_transactional=is_transactional)
    answered = Step(replies=((-1, OffsetVerdict(error=error)),))
    silence.after_step(state, mute, answered, config, now_ms + 5_000)
    with pytest.raises(BrokenInvariantError, match="has been silent for"):
        silence.after_step(state, TimePassed(), Step(), config, now_ms + 9_000)
    silence.after_step(state, commit, Step(replies=((-1, OffsetVerdict()),)), config, now_ms)
    silence.after_step(state, TimePassed(), Step(), config, now_ms + 5_000)


def test_the_leaders_sync_is_a_sign_of_life() -> None:
    """It is answered at once, and restarts the session."""
    stage = Stage()
    client = stage.classic("c1")
    stage.wait()
    state, config, now_ms = stage.driver.engine.state, stage.driver.config, stage.world.now_ms
    silence = stage.watch.silence
    synced = Step(records=(SyncReleased(client.member_id),))
    silence.after_step(state, TimePassed(), synced, config, now_ms + 5_000)
    silence.after_step(state, TimePassed(), Step(), config, now_ms + 9_000)


def test_a_refusal_that_asks_for_owned_partitions_restarts_the_session() -> None:
    """The engine answers COORDINATOR_NOT_AVAILABLE (deviation D67). A fenced member's session does
    not restart."""
    stage, _group = two_members()
    beat = replace(NATIVE_BEAT, token=-1)
    silence = stage.watch.silence
    for code, is_heard in (
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.FENCED_MEMBER_EPOCH, False),
    ):
        refusal = ConsumerHeartbeatReply(error=code)
        step = Step(replies=((-1, refusal),))
        assert silence._who_spoke(beat, step) == ({"n1"} if is_heard else set())
