"""Restoring a group from its log."""

import pytest

from coordinator.group.state import GroupState, Record
from coordinator.interface.records import (
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupConfigs,
    GroupEpoch,
    MemberMetadata,
)
from coordinator.interface.volatile_records import DeadlineKey, DeadlineKind, DeadlineSet
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.replay import (
    check_replay,
    check_same,
    compacted,
    durable_state,
    snapshot,
)
from tests.support.simulation import Stage


def replayed(stage: Stage, log: list[DurableRecord]) -> GroupState:
    """The group that these records restore."""
    state = GroupState("orders")
    for record in log:
        state.apply(record)
    return state


def a_log() -> tuple[Stage, list[DurableRecord]]:
    """The log of a group that a member joined and another left."""
    stage = Stage()
    stage.native("n1")
    going = stage.native("n2")
    stage.wait()
    going.close()
    stage.wait()
    log = [
        what
        for _at_ms, who, what in stage.world.transcript
        if who == "engine" and isinstance(what, DurableRecord)
    ]
    return stage, log


def test_a_log_and_its_compaction_restore_the_group() -> None:
    """Volatile state does not count."""
    stage, log = a_log()
    expected = durable_state(stage.driver.engine.state)
    check_replay(log, expected, config=stage.driver.config, now_ms=stage.world.now_ms)
    assert len(compacted(log)) < len(log)


def test_a_lost_record_is_noticed() -> None:
    """The lost record is a grant, a member, or a tombstone."""
    stage, log = a_log()
    expected = durable_state(stage.driver.engine.state)
    for kind in (CurrentAssignment, MemberMetadata):
        last = max(n for n, record in enumerate(log) if isinstance(record, kind))
        with pytest.raises(BrokenInvariantError) as broken:
            check_same(replayed(stage, log[:last] + log[last + 1 :]), expected)
        assert broken.value.invariant is Invariant.REPLAY


@pytest.mark.parametrize(
    "record",
    [
        MemberMetadata(member_id="n1", value=None),
        GroupEpoch(epoch=77, cause=EpochCause.MEMBER_JOINED),
        DeadlineSet(DeadlineKey(DeadlineKind.SESSION, "n1"), 1),
        GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_snapshot_tells_a_changed_state_apart(record: Record) -> None:
    """Whatever part of the state the record changes."""
    state = a_log()[0].driver.engine.state
    before = snapshot(state)
    assert snapshot(state) == before
    state.apply(record)
    assert snapshot(state) != before
