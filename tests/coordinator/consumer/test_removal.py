"""Deleting and replacing members of a consumer group (rules 3.3, 3.11, 8.3)."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import (
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    RemovalCause,
    TargetAssignmentMember,
)
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript


def test_a_member_is_deleted_in_the_order_of_dependency(group: GroupScript) -> None:
    """The order is assignment, target, member. A cut between them leaves no dangling record."""
    group.native("n1")
    group.native("n2")
    group.native("n1", -1)
    tombstones = [r for r in group.last_step.durable if getattr(r, "member_id", "") == "n1"]
    assert tombstones == [
        CurrentAssignment(member_id="n1", value=None),
        TargetAssignmentMember(member_id="n1", partitions=None),
        MemberMetadata(member_id="n1", value=None, cause=RemovalCause.LEFT),
    ]


def test_inherited_partitions_cannot_be_committed_with_an_epoch_before_the_replacement(
    group: GroupScript,
) -> None:
    """DEV D68: a process that had the id before the replacement still has its older epoch."""
    group.native("n1", instance_id="i1")
    stale_epoch = group.current("n1").member_epoch
    group.native("n2")
    group.wait(2_000)
    group.native("n1", stale_epoch)
    held = group.topics.names(group.current("n1").assigned.keys())
    group.native("n1", stale_epoch, owned=held)
    classic = group.join(instance_id="i1").member_id
    group.wait(GroupConfig().consumer_assignment_interval_ms)
    group.native("n1", instance_id="i1")
    assert classic not in group.consumer.members
    _, verdict = group.commit("n1", stale_epoch, held)
    assert verdict.error is ErrorCode.STALE_MEMBER_EPOCH


FOO_0 = {"foo": (0,)}


def given_one_away(group: GroupScript) -> int:
    """A static member with foo-0 has left with -2, and another one has the rest. Returns their
    epoch."""
    group.given_consumer_group(
        given_native("n1", instance_id="i1", assigned=FOO_0),
        given_native("n2", assigned={"foo": (1, 2)}),
    )
    epoch = group.current("n1").member_epoch
    group.native("n1", -2, instance_id="i1")
    return epoch


@pytest.mark.parametrize("instance_id", ["i1", "i2"])
def test_a_member_that_returns_cannot_commit_with_its_last_epoch_before(
    group: GroupScript, instance_id: str
) -> None:
    """DEV D68: it has fetched again since, and a late commit would set the offset first ahead and
    then back (truth seed 1563539)."""
    epoch = given_one_away(group)
    group.native("n3")
    group.wait(GroupConfig().consumer_assignment_interval_ms)
    group.native("n2", epoch)
    assert group.native("n1", instance_id=instance_id).member_epoch > epoch
    _, verdict = group.commit("n1", epoch, FOO_0)
    assert verdict.error is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize("instance_id", ["i1", "i2"])
def test_a_return_that_begins_an_epoch_counts_as_a_return_in_that_epoch(
    group: GroupScript, instance_id: str
) -> None:
    """DEV D68: the group was still in the member's last epoch when it returned."""
    epoch = given_one_away(group)
    joined = group.native("n1", instance_id=instance_id, topics=("foo", "bar"))
    assert joined.member_epoch > epoch
    _, verdict = group.commit("n1", epoch, FOO_0)
    assert verdict.error is ErrorCode.STALE_MEMBER_EPOCH


def test_an_heir_that_must_revoke_is_believed(group: GroupScript) -> None:
    """The heir keeps epoch 0 until it has revoked. No partition that it inherits counts as granted
    later (DEV D5)."""
    group.given_consumer_group(
        given_classic(
            "c1", epoch=9, instance_id="i1", assigned={"foo": (0, 1)}, target={"foo": (0,)}
        ),
        given_native("n1", assigned={"foo": (2,)}, target={"foo": (1, 2)}),
    )
    joined = group.join(instance_id="i1", owned={"foo": (0, 1)})
    assert group.current(joined.member_id).state is MemberState.UNREVOKED_PARTITIONS
    group.sync(joined.member_id, joined.generation, instance_id="i1")
    joined = group.join(
        joined.member_id,
        instance_id="i1",
        owned={"foo": (0,)},
        generation=joined.generation,
        embedded_version=2,
    )
    assert group.current(joined.member_id).state is MemberState.STABLE


def test_an_id_that_was_replaced_in_this_epoch_inherits_nothing(group: GroupScript) -> None:
    """DEV D68: its join may have been late. Its client then continues where it was, and would take
    back what its replacement has committed."""
    held = {"foo": (0,)}
    group.given_consumer_group(
        given_native("n1", instance_id="i1", assigned=held),
        given_native("n2", assigned={"foo": (1, 2)}),
    )
    epoch = group.current("n1").member_epoch
    group.join(instance_id="i1")
    assert group.consumer.epoch == epoch
    group.native("n1", instance_id="i1")
    assert group.current("n1").member_epoch > epoch
    _, verdict = group.commit("n1", epoch, FOO_0)
    assert verdict.error is ErrorCode.STALE_MEMBER_EPOCH


def test_an_id_that_was_replaced_waits_for_the_next_target(make_group: MakeGroup) -> None:
    """DEV D68: it would get the epoch that its client still has, whose commits would then count
    (seed 153626)."""
    config = GroupConfig(second_target_waits=True)
    group = make_group(config=config)
    group.native("n2")
    group.native("n1", instance_id="i1")
    group.wait(config.consumer_assignment_interval_ms)
    epoch = group.native("n1", instance_id="i1").member_epoch
    group.native("n3")
    group.join(instance_id="i1")
    late = group.native("n1", instance_id="i1")
    assert late.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    _, verdict = group.commit("n1", epoch, {"foo": (0,)})
    assert verdict.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.wait(config.consumer_assignment_interval_ms)
    assert group.native("n1", instance_id="i1").member_epoch > epoch


def test_a_restart_forgets_which_ids_were_replaced(group: GroupScript) -> None:
    """DEV D68: the log does not say. The old id then inherits like any other."""
    held = {"foo": (0,)}
    group.given_consumer_group(
        given_native("n1", instance_id="i1", assigned=held),
        given_native("n2", assigned={"foo": (1, 2)}),
    )
    epoch = group.current("n1").member_epoch
    group.join(instance_id="i1")
    group.restart()
    group.native("n1", instance_id="i1")
    assert group.names_of(group.current("n1").assigned) == held
    assert group.current("n1").member_epoch == group.consumer.epoch == epoch


def test_the_revocation_deadline_survives_a_replacement(group: GroupScript) -> None:
    """DEV D4: a static classic member that repeatedly returns without its member id, and still owns
    partitions that it must revoke, gains no time."""
    token = group.send_join(instance_id="i1", rebalance_timeout_ms=30_000)
    group.wait(3_000)
    first = group.answer(token, JoinGroupReply).member_id
    owns = {"foo": (0, 1, 2)}
    group.sync(first, 1, instance_id="i1", assignments={first: owns})
    group.native("n1")
    group.join(first, instance_id="i1", owned=owns, rebalance_timeout_ms=30_000)
    assert group.current(first).state is MemberState.UNREVOKED_PARTITIONS
    group.wait(5_000)
    second = group.join(instance_id="i1", owned=owns, rebalance_timeout_ms=30_000).member_id
    assert group.current(second).state is MemberState.UNREVOKED_PARTITIONS
    assert group.left_ms(DeadlineKind.REVOCATION, second) == 25_000


def test_a_replacement_inherits_all_but_the_epoch(group: GroupScript) -> None:
    """The new member has the old one's assignment, and advances to the assignment epoch
    immediately."""
    group.native("n1", instance_id="i1")
    before = group.current("n1")
    group.native("n1", -2, instance_id="i1")
    group.native("n2", instance_id="i1")
    assert group.consumer.members.keys() == {"n2"}
    assert group.current("n2").assigned == before.assigned
    assert group.current("n2").previous_epoch == 0
    assert group.current("n2").state is MemberState.STABLE
    assert group.left_ms(DeadlineKind.SESSION, "n1") is None


def test_an_unwritten_record_needs_no_tombstone(group: GroupScript) -> None:
    """A member that joined before the next target was due has no target to delete."""
    group.native("n1")
    group.native("n2", instance_id="i2")
    group.native("n2", -2, instance_id="i2")
    group.native("n3", instance_id="i2")
    assert not [r for r in group.last_step.durable if isinstance(r, TargetAssignmentMember)]
    removed = [r for r in group.last_step.durable if isinstance(r, MemberMetadata)]
    assert (removed[0].member_id, removed[0].cause) == ("n2", RemovalCause.REPLACED)
    group.native("n3", -1)
    assert [type(record) for record in group.last_step.durable[:2]] == [
        CurrentAssignment,
        MemberMetadata,
    ]
