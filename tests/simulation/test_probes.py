"""What-if questions."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.conversion import downgrade
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.records import (
    Assignment,
    ClassicGroupMember,
    CurrentAssignment,
    EpochCause,
    GroupEpoch,
    MemberState,
    TargetAssignmentMetadata,
)
from coordinator.interface.volatile_records import MemberSlot, MemberSlotMoved
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.leader import write_assignment
from tests.simulation.probes import (
    check_next_heartbeat,
    check_rejoin_changes_nothing,
    check_rejoin_changes_something,
    check_there_and_back,
)
from tests.simulation.replay import snapshot
from tests.support.simulation import Stage


def test_a_quiet_member_may_rejoin() -> None:
    """The rejoin would change nothing, and neither does the probe."""
    stage = Stage()
    stage.native("n1")
    stage.wait(1_000)
    client = stage.classic("c1")
    stage.wait()
    state = stage.driver.engine.state
    assert isinstance(state.group, ConsumerGroup)
    before = snapshot(state)
    how = (stage.driver.config, stage.cluster.topics, stage.world.now_ms)
    check_rejoin_changes_nothing(state, client.member_id, *how)
    assert snapshot(state) == before
    # The member could get more partitions, so its heartbeat should have asked for a rejoin.
    current = state.group.assignments[client.member_id]
    lost, *kept = current.assigned
    waiting = replace(
        current, assigned=dict.fromkeys(kept, 1), state=MemberState.UNRELEASED_PARTITIONS
    )
    state.group.apply(CurrentAssignment(member_id=client.member_id, value=waiting))
    state.group.holders.put(lost, client.member_id)
    with pytest.raises(BrokenInvariantError) as broken:
        check_rejoin_changes_nothing(state, client.member_id, *how)
    assert broken.value.invariant is Invariant.QUIET_REJOIN


def test_a_member_without_an_epoch_may_rejoin_to_have_its_partitions_since_the_next() -> None:
    """A native member converted the group in its first join phase, and the classic member has
    exactly its target. Nothing moves when it gets its first epoch (seed 31003072)."""
    stage = Stage()
    stage.native("n1")
    stage.wait(1_000)
    client = stage.classic("c1")
    stage.wait()
    state = stage.driver.engine.state
    assert isinstance(state.group, ConsumerGroup)
    mine = state.group.assignments[client.member_id].assigned
    assert mine
    converted = Assignment(member_epoch=0, previous_epoch=0, assigned=dict.fromkeys(mine, 0))
    state.group.apply(CurrentAssignment(member_id=client.member_id, value=converted))
    config = replace(stage.driver.config, unaffected_members_rejoin=False)
    how = (config, stage.cluster.topics, stage.world.now_ms)
    check_rejoin_changes_nothing(state, client.member_id, *how)
    with pytest.raises(BrokenInvariantError) as broken:
        check_rejoin_changes_something(state, client.member_id, *how)
    assert broken.value.invariant is Invariant.DISTURBED


def test_there_and_back() -> None:
    """The probe needs a group at rest with a static member."""
    stage = Stage()
    stage.classic("c1")
    stage.wait()
    how = (stage.driver.config, stage.cluster.topics, stage.world.now_ms)
    assert not check_there_and_back(stage.driver.engine.state, *how)
    stage.classic("c2", instance_id="i2")
    stage.wait()
    assert check_there_and_back(stage.driver.engine.state, *how)
    group = stage.driver.engine.state.group
    assert isinstance(group, ClassicGroup)
    away = MemberSlotMoved("c3", MemberSlot(next(iter(group.members.values())), left_ms=0))
    awaiting = stage.driver.engine.state.fork()
    awaiting.apply(away)
    assert not check_there_and_back(awaiting, *how)
    for member in list(group.members.values()):
        overlapping = replace(member, assignment=write_assignment([("foo", 0)]))
        group.members.put(member.member_id, overlapping)
    assert not check_there_and_back(stage.driver.engine.state, *how)


def test_a_conversion_that_loses_partitions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty conversion stores no assignment."""
    stage = Stage()
    stage.classic("c1", instance_id="i1")
    stage.wait()
    real = downgrade._classic_group_member

    def planted(*what: Any) -> ClassicGroupMember:
        return replace(real(*what), assignment=b"")

    monkeypatch.setattr(downgrade, "_classic_group_member", planted)
    how = (stage.driver.config, stage.cluster.topics, stage.world.now_ms)
    with pytest.raises(BrokenInvariantError) as broken:
        check_there_and_back(stage.driver.engine.state, *how)
    assert broken.value.invariant is Invariant.THERE_AND_BACK


def test_a_heartbeat_that_hides_a_target_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe asks the engine, so no client has to send a heartbeat."""
    stage = Stage()
    stage.native("n1")
    client = stage.classic("c1")
    stage.wait()
    state = stage.driver.engine.state
    assert isinstance(state.group, ConsumerGroup)
    epoch = state.group.epoch + 1
    metadata_hash = state.group.metadata_hash
    for record in (
        GroupEpoch(epoch=epoch, metadata_hash=metadata_hash, cause=EpochCause.MEMBER_REMOVED),
        TargetAssignmentMetadata(epoch=epoch),
    ):
        state.group.apply(record)
    how = (stage.driver.config, stage.cluster.topics, stage.world.now_ms)
    check_next_heartbeat(state, client.member_id, *how)
    monkeypatch.setattr("coordinator.mixed.heartbeat._must_rejoin", lambda *_: False)
    with pytest.raises(BrokenInvariantError) as broken:
        check_next_heartbeat(state, client.member_id, *how)
    assert broken.value.invariant is Invariant.QUIET_REJOIN
