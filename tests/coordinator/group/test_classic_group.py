"""The state of a classic group (rules 2.1, 2.10)."""

from dataclasses import replace

import pytest

from coordinator.group.classic_group import ClassicGroup, ClassicRecord
from coordinator.interface.records import (
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    RemovalCause,
)
from coordinator.interface.volatile_records import (
    ClassicCore,
    ClassicCoreMoved,
    ClassicGroupMemberDropped,
    ClassicGroupMemberPut,
    ClassicPhase,
    JoinParked,
    ParkedJoin,
    PendingIdAdded,
    PendingIdDropped,
    SyncParked,
    SyncsExpected,
)


def member(member_id: str, instance_id: str | None = None) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocols=(("range", b"subscription"),),
    )


def value(*members: ClassicGroupMember) -> ClassicGroupValue:
    return ClassicGroupValue(
        protocol_type="consumer", generation=7, protocol="range", leader="a", members=members
    )


@pytest.mark.parametrize("instance_id", ["i1", ""])
def test_a_dropped_member_frees_its_instance_id(instance_id: str) -> None:
    """This includes the empty instance id, which no client should send."""
    group = ClassicGroup()
    group.apply(ClassicGroupMemberPut(member("a", instance_id)))
    assert dict(group.instances) == {instance_id: "a"}
    group.apply(ClassicGroupMemberDropped("a", RemovalCause.LEFT))
    assert not group.instances


def test_dropping_a_replaced_member_keeps_the_instance_id() -> None:
    """The instance id belongs to the new holder."""
    group = ClassicGroup()
    group.apply(ClassicGroupMemberPut(member("a", "i1")))
    group.apply(ClassicGroupMemberPut(member("b", "i1")))
    group.apply(ClassicGroupMemberDropped("a", RemovalCause.REPLACED))
    assert dict(group.instances) == {"i1": "b"}


def test_a_loaded_group_is_stable_and_an_empty_one_empty() -> None:
    """Only the record of the last distribution survives a failover (rule 2.10)."""
    group = ClassicGroup()
    group.apply(ClassicGroupMetadata(value=value(member("a", "i1"), member("b"))))
    assert group.core.phase is ClassicPhase.STABLE
    assert group.stored_value() == value(member("a", "i1"), member("b"))
    assert dict(group.instances) == {"i1": "a"}
    group.apply(ClassicGroupMetadata(value=value()))
    assert group.phase is ClassicPhase.EMPTY
    assert not group.members
    assert not group.instances


def test_a_fork_is_independent() -> None:
    """A step's decisions do not affect the group until they are applied."""
    group = ClassicGroup()
    group.apply(ClassicGroupMemberPut(member("a", "i1")))
    twin = group.fork()
    twin.apply(ClassicGroupMemberDropped("a", RemovalCause.LEFT))
    twin.apply(PendingIdAdded("p"))
    twin.apply(JoinParked("b", ParkedJoin(token=1, is_new=True)))
    twin.apply(SyncsExpected(("b",)))
    twin.apply(ClassicCoreMoved(ClassicCore(generation=9)))
    assert group.members.keys() == {"a"}
    assert dict(group.instances) == {"i1": "a"}
    assert not group.pending_ids
    assert not group.joins
    assert not group.unsynced
    assert group.core.generation == 0


@pytest.mark.parametrize(
    ("record", "is_quiet"),
    [
        (ClassicCoreMoved(ClassicCore(generation=1)), True),
        (PendingIdDropped("p"), True),
        (PendingIdAdded("p"), False),
        (ClassicGroupMemberPut(member("a")), False),
        (JoinParked("a", ParkedJoin(token=1, is_new=True)), False),
        (SyncParked("a", 1), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_group_with_a_pending_answer_is_not_quiet(record: ClassicRecord, is_quiet: bool) -> None:
    """A pending id counts, because its client will return."""
    group = ClassicGroup()
    group.apply(record)
    assert group.is_quiet is is_quiet


def test_a_dropped_member_need_not_sync() -> None:
    """The sync phase would end in a rebalance because of a removed member."""
    group = ClassicGroup()
    group.apply(ClassicGroupMemberPut(member("a")))
    group.apply(ClassicGroupMemberPut(member("b")))
    group.apply(SyncsExpected(("a", "b")))
    group.apply(ClassicGroupMemberDropped("a", RemovalCause.LEFT))
    assert group.unsynced.keys() == {"b"}


def test_a_removal_costs_the_same_however_many_members_lag() -> None:
    """After a downgrade all may lag, and all that do not rejoin in time are removed in one step."""
    members = [member(f"m{number}") for number in range(3)]
    lagging = replace(value(*members), older_epochs={member.member_id: 5 for member in members})
    group = ClassicGroup()
    group.apply(ClassicGroupMetadata(value=lagging))
    older_epochs = group.core.older_epochs
    group.apply(ClassicGroupMemberDropped("m0", RemovalCause.JOIN_TIMED_OUT))
    assert group.core.older_epochs is older_epochs
    assert group.stored_value().older_epochs == {"m1": 5, "m2": 5}
