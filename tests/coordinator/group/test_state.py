"""`apply`, and replays of partial logs (rule 8.4)."""

from dataclasses import replace

import pytest

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.records import (
    Assignment,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMetadata,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.volatile_records import (
    CommitEnded,
    CommitInFlight,
    CommitStarted,
    DeadlineCleared,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    VolatileRecord,
)
from tests.support.group_script import GroupScript, partitions

FOO_0 = partitions({"foo": (0,)})
KEY = DeadlineKey(DeadlineKind.SESSION, "a")
IN_FLIGHT = CommitInFlight(member_id="a", partitions=FOO_0, held=FOO_0)
CLASSIC = ClassicGroupMetadata(
    value=ClassicGroupValue(protocol_type=None, generation=0, protocol=None, leader=None)
)
MEMBER = Member(member_id="a", client_id="c", client_host="h", rebalance_timeout_ms=1)

CONSUMER_TOMBSTONES: list[DurableRecord] = [
    CurrentAssignment(member_id="a", value=None),
    TargetAssignmentMember(member_id="a", partitions=None),
    TargetAssignmentMetadata(epoch=None),
    MemberMetadata(member_id="a", value=None, cause=RemovalCause.LEFT),
    GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED),
]
CONSUMER_RECORDS: list[DurableRecord] = [
    CurrentAssignment(member_id="a", value=Assignment(member_epoch=1, previous_epoch=1)),
    TargetAssignmentMember(member_id="a", partitions=FOO_0),
    TargetAssignmentMetadata(epoch=1),
    MemberMetadata(member_id="a", value=MEMBER),
    GroupEpoch(epoch=1, cause=EpochCause.MEMBER_JOINED),
]


def name_of(record: DurableRecord) -> str:
    return type(record).__name__


@pytest.mark.parametrize(
    "tombstone", [*CONSUMER_TOMBSTONES, ClassicGroupMetadata(value=None)], ids=name_of
)
def test_a_tombstone_creates_no_group(tombstone: DurableRecord) -> None:
    """Compaction may keep a tombstone without its record."""
    state = GroupState("orders")
    state.apply(tombstone)
    assert state.group is None


@pytest.mark.parametrize("tombstone", CONSUMER_TOMBSTONES, ids=name_of)
def test_a_late_tombstone_spares_a_classic_group(tombstone: DurableRecord) -> None:
    """Leftovers of an earlier consumer group do not affect the present group."""
    state = GroupState("orders")
    state.apply(CLASSIC)
    state.apply(tombstone)
    assert isinstance(state.group, ClassicGroup)


@pytest.mark.parametrize("record", CONSUMER_RECORDS, ids=name_of)
def test_any_record_may_be_the_first_of_a_consumer_group(record: DurableRecord) -> None:
    """Compaction keeps no order between keys. A simple classic group is replaced."""
    state = GroupState("orders")
    state.apply(CLASSIC)
    state.apply(record)
    assert isinstance(state.group, ConsumerGroup)


def test_a_tombstone_of_the_classic_group_spares_a_consumer_group() -> None:
    """An upgrade leaves both in the log."""
    state = GroupState("orders")
    state.apply(CONSUMER_RECORDS[-1])
    state.apply(ClassicGroupMetadata(value=None))
    assert isinstance(state.group, ConsumerGroup)


def test_deadlines_and_commits_survive_the_group() -> None:
    """Deadlines and commits are independent of the kind of group."""
    state = GroupState("orders")
    state.apply(CLASSIC)
    state.apply(DeadlineSet(KEY, 5))
    state.apply(CommitStarted(7, IN_FLIGHT))
    state.apply(ClassicGroupMetadata(value=None))
    assert dict(state.deadlines) == {KEY: 5}
    assert dict(state.commits) == {7: IN_FLIGHT}
    assert not state.is_quiet
    state.apply(DeadlineCleared(KEY))
    state.apply(CommitEnded(7))
    assert not state.deadlines
    assert not state.commits


def test_a_fork_does_not_affect_the_original(group: GroupScript) -> None:
    """Steps are decided on forks."""
    group.native("n1")
    state = group.engine.state
    twin = state.fork()
    twin.apply(MemberMetadata(member_id="n1", value=None, cause=RemovalCause.LEFT))
    twin.apply(DeadlineSet(KEY, 5))
    twin.apply(CommitStarted(7, IN_FLIGHT))
    assert group.consumer.members.keys() == {"n1"}
    assert KEY not in state.deadlines
    assert not state.commits


def test_a_group_is_quiet_once_its_last_member_and_timer_are_gone(group: GroupScript) -> None:
    """Its state may then leave memory."""
    quiet = [group.engine.state.is_quiet]
    group.native("n1")
    quiet.append(group.engine.state.is_quiet)
    group.native("n1", -1)
    quiet.append(group.engine.state.is_quiet)
    assert quiet == [True, False, True]


@pytest.mark.parametrize(
    ("begins", "ends"),
    [(DeadlineSet(KEY, 5), DeadlineCleared(KEY)), (CommitStarted(7, IN_FLIGHT), CommitEnded(7))],
)
def test_a_deadline_or_commit_in_flight_keeps_a_state_in_memory(
    begins: VolatileRecord, ends: VolatileRecord
) -> None:
    """Either is enough."""
    state = GroupState("orders")
    state.apply(begins)
    assert not state.is_quiet
    state.apply(ends)
    assert state.is_quiet


def test_the_instances_of_removed_native_members_are_kept_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one to be removed is forgotten. Classic members name their instance themselves."""
    monkeypatch.setattr("coordinator.group.state.FORMER_INSTANCES_MAX", 2)
    state = GroupState("orders")
    classic = ClassicMetadata(session_timeout_ms=1, protocols=())
    for name in ("a", "b", "c", "d"):
        member = replace(MEMBER, member_id=name, instance_id=f"i-{name}")
        if name == "d":
            member = replace(member, classic=classic)
        state.apply(MemberMetadata(member_id=name, value=member))
        state.apply(MemberMetadata(member_id=name, value=None, cause=RemovalCause.LEFT))
    assert dict(state.former_instances) == {"b": "i-b", "c": "i-c"}
