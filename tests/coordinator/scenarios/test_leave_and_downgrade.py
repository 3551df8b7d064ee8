"""Scenarios 47 to 60: members leave, and consumer groups become classic."""

import pytest

from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.records import (
    ClassicGroupMetadata,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    RemovalCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import ClassicPhase, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, make_topics

FOO_0 = {"foo": (0,)}
REST = {"foo": (1, 2)}


def given_two_members(group: GroupScript) -> None:
    """Classic c1, whose session lasts a minute, and native n2, both settled at epoch 10."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, session_timeout_ms=60_000, rebalance_timeout_ms=30_000),
        given_native("n2", assigned=REST),
    )


def assert_downgraded(group: GroupScript, generation: int = 10) -> None:
    """The group is a classic one that rebalances, and tells c1."""
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    assert group.classic.core.generation == generation
    assert group.classic.members.keys() == {"c1"}
    assert group.left_ms(DeadlineKind.JOIN_PHASE) is not None
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 60_000
    assert group.beat("c1", generation).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_47_several_members_leave_in_one_request(group: GroupScript) -> None:
    """Each entry has its own code, and the epoch is bumped once."""
    group.given_consumer_group(
        given_classic("c1"),
        given_classic("c2", instance_id="i2"),
        given_classic("c3", instance_id="i3"),
        given_native("n1"),
        given_native("n2"),
    )
    reply = group.leave("c1", ("", "i2"), "n1", "nobody", ("", "i9"), ("c1", "i3"))
    assert [member.error for member in reply.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert [(member.member_id, member.instance_id) for member in reply.members][1:3] == [
        ("", "i2"),
        ("n1", None),
    ]
    assert group.consumer.members.keys() == {"c3", "n2"}
    epochs = [record.epoch for record in group.last_step.durable if isinstance(record, GroupEpoch)]
    assert epochs == [11]


def test_48_a_leave_without_valid_entries_changes_nothing(group: GroupScript) -> None:
    """The request writes no record and bumps nothing."""
    given_two_members(group)
    reply = group.leave("nobody", ("", "i9"))
    assert {member.error for member in reply.members} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert group.last_step.records == ()


def test_49_the_last_native_member_leaves(group: GroupScript) -> None:
    """The group becomes classic, with the consumer group's epoch as its generation."""
    given_two_members(group)
    reply = group.native("n2", -1)
    assert (reply.error, reply.member_id, reply.member_epoch) == (ErrorCode.NONE, "n2", -1)
    assert [type(record) for record in group.last_step.durable] == [
        CurrentAssignment,
        CurrentAssignment,
        TargetAssignmentMember,
        TargetAssignmentMember,
        TargetAssignmentMetadata,
        MemberMetadata,
        MemberMetadata,
        GroupEpoch,
        ClassicGroupMetadata,
    ]
    assert_downgraded(group)
    assert group.native("n2", 10).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_50_the_last_native_members_session_expires(group: GroupScript) -> None:
    """This has the same effect as a leave."""
    given_two_members(group)
    group.wait(45_000)
    causes = {r.cause for r in group.last_step.durable if isinstance(r, MemberMetadata)}
    assert causes == {RemovalCause.SESSION_EXPIRED, RemovalCause.GROUP_CONVERTED}
    assert_downgraded(group)


def test_51_the_last_native_member_does_not_revoke(group: GroupScript) -> None:
    """The member sends heartbeats, but its rebalance timeout ends."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, session_timeout_ms=60_000, rebalance_timeout_ms=60_000),
        given_native("n2", assigned=REST, target={"foo": (1,)}),
        epoch=11,
    )
    assert group.native("n2", 10, owned=REST).member_epoch == 10
    assert group.current("n2").state is MemberState.UNREVOKED_PARTITIONS
    group.wait(5_000)
    group.native("n2", 10, owned=REST)
    group.wait(5_000)
    assert_downgraded(group, generation=11)


def test_52_an_admin_removes_all_native_members(group: GroupScript) -> None:
    """One LeaveGroup names them by member id."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, session_timeout_ms=60_000),
        given_native("n2", assigned={"foo": (1,)}),
        given_native("n3", assigned={"foo": (2,)}),
    )
    reply = group.leave("n2", "n3")
    assert {member.error for member in reply.members} == {ErrorCode.NONE}
    assert_downgraded(group)


def test_53_a_downgrade_needs_room_for_the_classic_members(make_group: MakeGroup) -> None:
    """The group stays a consumer group, and its epoch grows."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_consumer_group(given_classic("c1"), given_classic("c2"), given_native("n3"))
    group.native("n3", -1)
    assert group.consumer.epoch == 11
    assert not group.consumer.has_native_members


def test_54_the_last_native_member_returns_as_classic(group: GroupScript) -> None:
    """With the same topics and settled members, no rebalance is necessary."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n2", assigned=REST, instance_id="i2")
    )
    reply = group.join(instance_id="i2", owned={})
    assert (reply.error, reply.generation, reply.leader) == (ErrorCode.NONE, 10, "")
    assert group.classic.phase is ClassicPhase.STABLE
    assert group.classic.members.keys() == {"c1", reply.member_id}
    assert group.sync_assignment(reply.member_id, 10, instance_id="i2") == REST
    assert group.sync_assignment("c1", 10) == FOO_0
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert group.native("n2", 10, instance_id="i2").error == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("reason", ["topics", "stale target", "no target", "unsettled member"])
def test_55_a_member_that_has_not_settled_forces_a_rebalance(
    make_group: MakeGroup, reason: str
) -> None:
    """DEV D9, D10: the joiner waits in the rebalance, where Kafka answers it with generation 0."""
    group = make_group(topics=make_topics(foo=3, bar=1))
    # A group without a target is at the first assignment epoch.
    epoch, has_target = (1, False) if reason == "no target" else (10, True)
    c1 = given_classic("c1", epoch=9 if reason == "unsettled member" else epoch, assigned=FOO_0)
    n2 = given_native("n2", epoch=epoch, assigned=REST, instance_id="i2", has_target=has_target)
    group.given_consumer_group(
        c1,
        n2,
        epoch=11 if reason == "stale target" else 10,
        assignment_epoch=10 if has_target else None,
        has_target=has_target,
    )
    topics = ("foo", "bar") if reason == "topics" else ("foo",)
    token = group.send_join(instance_id="i2", topics=topics)
    assert group.is_parked(token)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    assert group.beat("c1", c1.epoch).error == ErrorCode.REBALANCE_IN_PROGRESS
    group.send_join("c1")
    assert group.answer(token, JoinGroupReply).generation == group.classic.core.generation > 10


def test_56_the_policy_keeps_the_consumer_group(make_group: MakeGroup) -> None:
    """Its classic members continue. DEV D6: the group computes its next target by itself."""
    policy = MigrationPolicy.UPGRADE
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    given_two_members(group)
    group.native("n2", -1)
    assert group.view().state == "Assigning"
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.wait(0)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned=FOO_0).generation == 11
    assert group.sync_assignment("c1", 11) == {"foo": (0, 1, 2)}


def test_57_the_policy_may_forbid_the_way_back(make_group: MakeGroup) -> None:
    """After the downgrade no native member may join."""
    policy = MigrationPolicy.DOWNGRADE
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    given_two_members(group)
    group.native("n2", -1)
    assert group.native("n2").error == ErrorCode.GROUP_ID_NOT_FOUND
    assert_downgraded(group)


def test_58_a_static_member_leaves_temporarily(group: GroupScript) -> None:
    """Epoch -2 does not remove it, but the end of its session does."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, session_timeout_ms=60_000, rebalance_timeout_ms=30_000),
        given_native("n2", assigned=REST, instance_id="i2"),
    )
    reply = group.native("n2", -2, instance_id="i2")
    assert reply.member_epoch == -2
    assert group.granted_partitions("n2") == REST
    group.wait(44_999)
    assert group.consumer.epoch == 10
    group.wait(1)
    assert_downgraded(group)


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_59_an_empty_consumer_group_gives_way(
    make_group: MakeGroup, policy: MigrationPolicy
) -> None:
    """The new classic group hands out the id, and then starts like any other. DEV D88: its
    generations continue from the epoch."""
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    group.native("n1")
    group.native("n1", -1)
    epoch = group.consumer.epoch
    reply = group.join()
    assert reply.error == ErrorCode.MEMBER_ID_REQUIRED
    assert [type(record) for record in group.last_step.durable] == [
        TargetAssignmentMetadata,
        GroupEpoch,
        ClassicGroupMetadata,
    ]
    token = group.send_join(reply.member_id)
    group.wait(3_000)
    assert group.answer(token, JoinGroupReply).generation == epoch + 1


def test_60_a_downgrade_that_cannot_be_written_changes_nothing(group: GroupScript) -> None:
    """The group remains a consumer group with its native member."""
    given_two_members(group)
    group.log_is_broken = True
    assert group.native("n2", -1).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.log_is_broken = False
    assert group.native("n2", 10).error == ErrorCode.NONE
    assert group.beat("c1", 10).error == ErrorCode.NONE


def test_a_member_at_an_older_epoch_since_the_downgrade_keeps_its_partitions(
    group: GroupScript,
) -> None:
    """DEV D8: the group knows its older epoch. The member must rejoin and may still commit. In
    Kafka ILLEGAL_GENERATION makes clients drop their partitions as lost."""
    group.given_consumer_group(
        given_classic("c1", epoch=9, assigned=FOO_0, session_timeout_ms=60_000),
        given_native("n2", assigned=REST),
    )
    group.native("n2", -1)
    assert group.classic.core.generation == 10
    assert group.beat("c1", 8).error == ErrorCode.ILLEGAL_GENERATION
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.sync("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    commit, verdict = group.commit("c1", 9, FOO_0)
    assert verdict.error == ErrorCode.NONE
    group.commit_answered(commit)
    assert group.join("c1").generation == 11
    assert group.beat("c1", 9).error == ErrorCode.ILLEGAL_GENERATION


def test_a_classic_member_that_never_revokes_is_fenced(group: GroupScript) -> None:
    """DEV D4: it rejoins repeatedly without giving up its partition."""
    group.given_consumer_group(
        given_classic("c1", assigned=REST, target={"foo": (1,)}), given_native("n2"), epoch=11
    )
    for _ in range(4):
        assert group.join("c1", owned=REST).generation == 10
        group.wait(2_000)
    assert "c1" in group.consumer.members
    group.join("c1", owned=REST)
    group.wait(2_000)
    assert group.consumer.members.keys() == {"n2"}


def test_after_a_restart_each_member_has_its_own_deadline(group: GroupScript) -> None:
    """DEV D7: a classic member keeps its session timeout, if that is long enough to reconnect. A
    member that is behind has its rebalance timeout to rejoin."""
    group.given_consumer_group(
        given_classic("c1", epoch=9, assigned=FOO_0, rebalance_timeout_ms=7_000),
        given_native("n2", assigned=REST),
    )
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 15_000
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 7_000
    assert group.left_ms(DeadlineKind.SESSION, "n2") == 45_000
    group.wait(7_000)
    assert group.consumer.members.keys() == {"n2"}
