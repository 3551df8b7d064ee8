"""The state of a consumer group and its indexes (rules 3.1, 3.14)."""

from dataclasses import replace

import pytest

from coordinator.group.consumer_group import ConsumerGroup, ConsumerGroupState
from coordinator.interface.records import (
    Assignment,
    ClassicMetadata,
    CurrentAssignment,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    RemovalCause,
    Subscription,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.volatile_records import MemberPhase, MemberPhaseMoved, TopicsChecked
from tests.support.group_values import partitions

FOO_0, FOO_1 = partitions({"foo": (0,)}), partitions({"foo": (1,)})
CLASSIC = ClassicMetadata(session_timeout_ms=1, protocols=(("range", b""),))


def put(
    member_id: str,
    *,
    instance_id: str | None = None,
    topics: tuple[str, ...] = ("foo",),
    classic: ClassicMetadata | None = None,
) -> MemberMetadata:
    value = Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1,
        topic_names=topics,
        classic=classic,
    )
    return MemberMetadata(member_id=member_id, value=value)


def holds(
    member_id: str, epoch: int = 1, state: MemberState = MemberState.STABLE
) -> CurrentAssignment:
    value = Assignment(
        member_epoch=epoch,
        previous_epoch=epoch,
        state=state,
        assigned=dict.fromkeys(FOO_0, epoch),
        pending_revocation=dict.fromkeys(FOO_1, epoch),
    )
    return CurrentAssignment(member_id=member_id, value=value)


def has_gone(member_id: str) -> MemberMetadata:
    return MemberMetadata(member_id=member_id, value=None, cause=RemovalCause.LEFT)


def test_pending_revocation_is_held_as_well() -> None:
    """A partition is free only if it is neither assigned nor pending revocation."""
    group = ConsumerGroup()
    group.apply(holds("a"))
    assert dict(group.holders) == dict.fromkeys(FOO_0 | FOO_1, "a")
    group.apply(CurrentAssignment(member_id="a", value=None))
    assert not group.holders


def test_the_next_holder_may_be_written_first() -> None:
    """A log that is read during compaction may have this order. The release by the old holder
    removes nothing."""
    group = ConsumerGroup()
    group.apply(holds("a"))
    group.apply(holds("b"))
    group.apply(CurrentAssignment(member_id="a", value=None))
    assert set(group.holders.values()) == {"b"}


@pytest.mark.parametrize("instance_id", ["i1", ""])
def test_instance_ids_follow_their_members(instance_id: str) -> None:
    """No instance id of a changed, replaced or removed member remains (KAFKA-20747)."""
    group = ConsumerGroup()
    group.apply(put("a", instance_id=instance_id))
    group.apply(put("a", instance_id="i2"))
    assert dict(group.instances) == {"i2": "a"}
    group.apply(put("b", instance_id="i2"))
    group.apply(has_gone("a"))
    assert dict(group.instances) == {"i2": "b"}
    group.apply(has_gone("b"))
    assert not group.instances


def test_subscribers_are_counted() -> None:
    """The count drops to zero with the last one."""
    group = ConsumerGroup()
    group.apply(put("a", topics=("bar", "foo")))
    group.apply(put("b"))
    assert dict(group.subscribers) == {"bar": 1, "foo": 2}
    group.apply(put("a", topics=("foo",)))
    group.apply(has_gone("b"))
    assert dict(group.subscribers) == {"foo": 1}


def test_subscriptions_and_assignor_votes_are_counted() -> None:
    """A member's protocol list may contain a name twice."""
    group = ConsumerGroup()
    twice = ClassicMetadata(session_timeout_ms=1, protocols=(("range", b"1"), ("range", b"2")))
    group.apply(put("a", classic=twice))
    group.apply(put("b", classic=CLASSIC))
    assert dict(group.classic_offers) == {"range": 2}
    assert dict(group.subscriptions) == {Subscription(("foo",), ""): 2}
    assert (group.native_count, group.has_native_members) == (0, False)
    voter = put("b").value
    assert voter is not None
    group.apply(MemberMetadata(member_id="b", value=replace(voter, server_assignor="range")))
    assert dict(group.assignor_votes) == {"range": 1}
    assert dict(group.classic_offers) == {"range": 1}
    assert (group.native_count, group.has_native_members) == (1, True)
    group.apply(has_gone("a"))
    group.apply(has_gone("b"))
    assert [len(t) for t in (group.classic_offers, group.assignor_votes)] == [0, 0]
    assert not group.subscriptions


def test_targets_are_indexed_by_partition_and_load() -> None:
    """A member without a target has load 0. The next owner may be written first."""
    group = ConsumerGroup()
    group.apply(put("a"))
    group.apply(put("b"))
    assert list(group.loads.at(0)) == ["a", "b"]
    group.apply(TargetAssignmentMember(member_id="a", partitions=FOO_0 | FOO_1))
    group.apply(TargetAssignmentMember(member_id="b", partitions=FOO_0))
    group.apply(TargetAssignmentMember(member_id="a", partitions=FOO_1))
    owners = {p.number: group.target_owners[p] for p in FOO_0 | FOO_1}
    assert owners == {0: "b", 1: "a"}
    assert list(group.loads.at(1)) == ["b", "a"]
    group.apply(TargetAssignmentMember(member_id="a", partitions=None))
    assert list(group.loads.at(0)) == ["a"]
    group.apply(has_gone("a"))
    assert len(group.loads) == 1


def test_a_classic_member_with_exactly_its_target_is_not_waited_for() -> None:
    """Rule 5.11, in whatever order the records come. An eager one is spared (rule 9.4)."""
    group = ConsumerGroup()
    group.apply(put("a", classic=CLASSIC))
    current = Assignment(member_epoch=1, previous_epoch=1, assigned=dict.fromkeys(FOO_0, 1))
    group.apply(TargetAssignmentMetadata(epoch=9))
    group.apply(CurrentAssignment(member_id="a", value=current))
    assert (group.is_unaffected("a"), [*group.spared]) == (False, [])
    group.apply(TargetAssignmentMember(member_id="a", partitions=FOO_0))
    assert group.is_unaffected("a")
    assert ([*group.spared], [*group.loads]) == (["a"], [])
    cooperative = replace(CLASSIC, protocols=(("cooperative-sticky", b""),))
    group.apply(put("a", classic=cooperative))
    assert group.is_unaffected("a")
    assert ([*group.spared], [*group.loads]) == ([], ["a"])
    group.apply(TargetAssignmentMember(member_id="a", partitions=FOO_0 | FOO_1))
    assert not group.is_unaffected("a")
    group.apply(put("a"))
    group.apply(TargetAssignmentMember(member_id="a", partitions=FOO_0))
    assert not group.is_unaffected("a")


def test_only_classic_members_have_a_phase() -> None:
    """A new member is Stable, an update keeps the phase, and becoming native ends it."""
    group = ConsumerGroup()
    group.apply(put("a", classic=CLASSIC))
    assert dict(group.phases) == {"a": MemberPhase.STABLE}
    group.apply(MemberPhaseMoved("a", MemberPhase.PREPARE_REBALANCE))
    group.apply(put("a", topics=(), classic=CLASSIC))
    assert dict(group.phases) == {"a": MemberPhase.PREPARE_REBALANCE}
    group.apply(put("a"))
    assert not group.phases


def test_a_fresh_group_begins_at_epoch_1() -> None:
    """Its first member gets epoch 2 (rule 3.5)."""
    group = ConsumerGroup()
    assert (group.epoch, group.assignment_epoch, group.target_timestamp_ms) == (1, 1, 0)


def test_the_state_is_the_first_that_applies() -> None:
    """The order is Empty, Assigning, Reconciling, Stable (rule 3.14)."""
    group = ConsumerGroup()
    states = [group.state]
    group.apply(put("a"))
    group.apply(holds("a"))
    states.append(group.state)
    group.apply(GroupEpoch(epoch=2, cause=EpochCause.MEMBER_JOINED))
    states.append(group.state)
    group.apply(TargetAssignmentMetadata(epoch=2))
    states.append(group.state)
    group.apply(holds("a", 2, MemberState.UNRELEASED_PARTITIONS))
    states.append(group.state)
    assert states == [
        ConsumerGroupState.EMPTY,
        ConsumerGroupState.STABLE,
        ConsumerGroupState.ASSIGNING,
        ConsumerGroupState.RECONCILING,
        ConsumerGroupState.RECONCILING,
    ]


def test_a_fork_is_independent() -> None:
    """A step's decisions do not affect the group until they are applied."""
    group = ConsumerGroup()
    group.apply(put("a", instance_id="i1", classic=CLASSIC))
    group.apply(holds("a"))
    group.apply(TargetAssignmentMember(member_id="a", partitions=FOO_0))
    twin = group.fork()
    twin.apply(CurrentAssignment(member_id="a", value=None))
    twin.apply(TargetAssignmentMember(member_id="a", partitions=None))
    twin.apply(has_gone("a"))
    twin.apply(GroupEpoch(epoch=9, cause=EpochCause.MEMBER_REMOVED))
    twin.apply(TargetAssignmentMetadata(epoch=9, timestamp_ms=5, assignor="range"))
    twin.apply(TopicsChecked(7))
    assert (group.epoch, group.assignment_epoch, group.assignor) == (1, 1, None)
    assert group.topics_checked == -1
    assert group.target_of("a") == FOO_0
    tables = (group.members, group.instances, group.subscribers, group.assignments, group.phases)
    assert [len(table) for table in tables] == [1, 1, 1, 1, 1]
    assert len(group.holders) == 2
