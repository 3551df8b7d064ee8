"""Scenarios 1 to 18: a native member joins a classic group."""

import pytest

from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.records import (
    ClassicGroupMetadata,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.replies import JoinGroupReply, SyncGroupReply
from coordinator.interface.volatile_records import ClassicPhase, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.simulation.replay import check_replay, compact_log, durable_state
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import (
    GroupScript,
    Owned,
    embedded_assignment,
    make_topics,
    subscription,
)

ALL = {"foo": (0, 1, 2)}
ONE_EACH = {"foo": (0,), "bar": (0,)}


@pytest.mark.parametrize(
    ("partition_count", "n1_gets", "n1_state"),
    [
        (2, {"bar": (1,), "foo": (1,)}, MemberState.STABLE),
        (1, {}, MemberState.UNRELEASED_PARTITIONS),
    ],
)
def test_01_a_native_member_converts_a_stable_group(
    make_group: MakeGroup, partition_count: int, n1_gets: Owned, n1_state: MemberState
) -> None:
    """The classic member keeps its partitions, and the native one gets the free ones."""
    group = make_group(topics=make_topics(foo=partition_count, bar=partition_count))
    topics = ("foo", "bar")
    group.given_classic_group(
        given_classic_group_member("c1", ONE_EACH, topics=topics), generation=0
    )
    reply = group.native("n1", topics=topics)
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, 1)
    assert group.names_of(reply.assignment) == n1_gets
    assert group.current("n1").state is n1_state
    assert group.current("c1").member_epoch == 0
    assert group.current("c1").state is MemberState.STABLE
    assert group.granted_partitions("c1") == {"bar": (0,), "foo": (0,)}
    assert group.consumer.epoch == 1
    kinds = [type(record) for record in group.last_step.durable]
    assert kinds[:5] == [
        ClassicGroupMetadata,
        MemberMetadata,
        GroupEpoch,
        TargetAssignmentMember,
        TargetAssignmentMetadata,
    ]
    assert kinds[5] is CurrentAssignment
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 10_000


def test_02_an_upgrade_during_the_join_phase(group: GroupScript) -> None:
    """Parked JoinGroups are answered with a request to rejoin. The assignments are those of the
    last generation."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0, 1)}), given_classic_group_member("c2")
    )
    waiting = group.send_join("c1", topics=("foo", "bar"))
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    group.native("n3")
    answer = group.answer(waiting, JoinGroupReply)
    assert (answer.error, answer.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, "c1")
    assert group.current("c1").member_epoch == 0
    assert group.granted_partitions("c1") == {"foo": (0, 1)}
    assert group.consumer.epoch == 1


def test_03_an_upgrade_during_the_sync_phase(group: GroupScript) -> None:
    """Parked SyncGroups are answered with a request to rejoin. The epochs are of the new
    generation, the partitions of the last distribution."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}),
        given_classic_group_member("c2", {"foo": (1,)}),
    )
    group.send_join("c1")
    group.send_join("c2")
    waiting = group.send_sync("c2", 1)
    assert group.is_parked(waiting)
    assert group.native("n3").member_epoch == 2
    assert group.answer(waiting, SyncGroupReply).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert [group.current(id_).member_epoch for id_ in ("c1", "c2")] == [1, 1]
    assert group.granted_partitions("c1") == {"foo": (0,)}
    assert group.granted_partitions("c2") == {"foo": (1,)}
    assert group.sync("c1", 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.beat("c2", 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 10_000


def test_04_a_member_that_never_synced_owns_no_partition(group: GroupScript) -> None:
    """Zero bytes mean no partitions, so the native member gets its share immediately."""
    c1 = group.take_id()
    group.send_join(c1)
    group.wait(3_000)
    reply = group.native("n2")
    assert reply.member_epoch == 2
    assert len(reply.assignment or ()) in (1, 2)
    assert group.current("n2").state is MemberState.STABLE
    assert group.granted_partitions(c1) == {}


@pytest.mark.parametrize("user_data", [None, b""])
def test_05_missing_user_data_is_accepted(group: GroupScript, user_data: bytes | None) -> None:
    """User data may be null or empty."""
    stored = embedded_assignment(ALL, user_data=user_data)
    group.given_classic_group(given_classic_group_member("c1", assignment=stored))
    assert group.native("n1").error == ErrorCode.NONE


def test_05_user_data_of_a_custom_assignor_is_refused(group: GroupScript) -> None:
    """Even one byte would be lost."""
    stored = embedded_assignment(ALL, user_data=b"!")
    group.given_classic_group(given_classic_group_member("c1", assignment=stored))
    reply = group.native("n1")
    assert reply.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in reply.reason
    assert group.view().group_type == "classic"


@pytest.mark.parametrize("junk", [{"assignment": b"\x00\x01 junk"}, {"metadata": b"\x00\x01 junk"}])
def test_06_malformed_bytes_are_refused(group: GroupScript, junk: dict[str, bytes]) -> None:
    """The classic group continues."""
    group.given_classic_group(given_classic_group_member("c1", **junk))  # type: ignore[arg-type]
    reply = group.native("n1")
    assert reply.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "malformed" in reply.reason
    assert group.beat("c1", 0).error == ErrorCode.NONE


def test_06_a_subscription_without_its_last_field(group: GroupScript) -> None:
    """DEV D24: kafkajs 1 writes version 1 with the fields of version 0."""
    metadata = b"\x00\x01" + subscription(["foo"], version=0)[2:]
    group.given_classic_group(given_classic_group_member("c1", metadata=metadata))
    assert group.native("n1").error == ErrorCode.NONE
    assert group.view().group_type == "consumer"


def test_06_a_refused_upgrade_disturbs_no_member(group: GroupScript) -> None:
    """DEV D1: Kafka releases parked requests before it checks the bytes."""
    bad = given_classic_group_member("c1", assignment=b"\x00\x01 junk")
    group.given_classic_group(bad, given_classic_group_member("c2"))
    waiting = group.send_join("c1")
    assert group.native("n1").error == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.is_parked(waiting)


def test_07_a_foreign_protocol_type_is_refused(group: GroupScript) -> None:
    """Connect workers cannot migrate this way."""
    group.given_classic_group(given_classic_group_member("c1", ALL), protocol_type="connect")
    reply = group.native("n1")
    assert reply.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "embedded consumer protocol" in reply.reason
    assert group.view().group_type == "classic"


def test_08_a_group_that_is_too_large_is_refused(make_group: MakeGroup) -> None:
    """A group of the maximum size would pass, but the joiner would exceed the limit."""
    group = make_group(config=GroupConfig(consumer_max_size=1))
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}), given_classic_group_member("c2")
    )
    reply = group.native("n1")
    assert reply.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "maximum" in reply.reason
    group.leave("c2")
    assert group.native("n1").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.view().group_type == "classic"


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_09_the_policy_forbids_an_upgrade(make_group: MakeGroup, policy: MigrationPolicy) -> None:
    """The classic members notice nothing."""
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    group.given_classic_group(given_classic_group_member("c1", ALL))
    reply = group.native("n1")
    assert reply.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert policy in reply.reason
    assert group.beat("c1", 0).error == ErrorCode.NONE


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_10_an_empty_group_is_replaced_under_any_policy(
    make_group: MakeGroup, policy: MigrationPolicy
) -> None:
    """DEV D88: its epochs continue. The offsets are in the cluster and can still be fetched."""
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    group.given_classic_group(given_classic_group_member("c1", ALL), generation=7)
    group.leave("c1")
    generation = group.classic.core.generation
    assert group.native("n1").member_epoch == generation + 1
    assert group.last_step.durable[0] == ClassicGroupMetadata(value=None)
    assert group.fetch("n1", generation + 1).error == ErrorCode.NONE


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_11_a_group_with_only_offsets_is_no_group(
    make_group: MakeGroup, policy: MigrationPolicy
) -> None:
    """Its offsets are in the cluster, so the engine does not know it."""
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    token, verdict = group.commit("", -1, {"foo": (0,)})
    assert verdict.error == ErrorCode.NONE
    group.commit_answered(token)
    assert group.native("n1").member_epoch == 2
    assert group.fetch("n1", 2, {"foo": (0,)}).error == ErrorCode.NONE


def test_12_a_static_member_returns_as_native(group: GroupScript) -> None:
    """With the same topics it gets the same partitions at the same epoch, without a bump or a new
    target."""
    group.given_classic_group(given_classic_group_member("c1", ALL, instance_id="i1"), generation=5)
    reply = group.native("n1", instance_id="i1")
    assert reply.member_epoch == 5
    assert group.names_of(reply.assignment) == ALL
    assert group.consumer.members.keys() == {"n1"}
    epochs = [record.epoch for record in group.last_step.durable if isinstance(record, GroupEpoch)]
    targets = [r for r in group.last_step.durable if isinstance(r, TargetAssignmentMetadata)]
    assert (epochs, len(targets)) == ([5], 1)


def test_13_a_static_member_returns_as_native_with_other_topics(make_group: MakeGroup) -> None:
    """The epoch is bumped, and a new target computed."""
    group = make_group(topics=make_topics(foo=3, bar=1))
    group.given_classic_group(given_classic_group_member("c1", ALL, instance_id="i1"), generation=5)
    reply = group.native("n1", topics=("foo", "bar"), instance_id="i1")
    assert reply.member_epoch == 6
    assert group.names_of(reply.assignment) == {"bar": (0,), **ALL}
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (6, 6)


def test_14_only_a_join_at_epoch_0_converts(group: GroupScript) -> None:
    """DEV D49: a client that considers itself a member learns that it is not, and rejoins."""
    group.given_classic_group(given_classic_group_member("c1", ALL))
    assert group.native("n1", 3).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.view().group_type == "classic"


def test_15_a_deleted_topic_is_dropped(group: GroupScript) -> None:
    """The rest of the assignment stays."""
    group.given_classic_group(given_classic_group_member("c1", {"foo": (0,), "gone": (0, 1)}))
    group.native("n1")
    assert group.granted_partitions("c1") == {"foo": (0,)}


def test_16_a_conversion_that_cannot_be_written_changes_nothing(group: GroupScript) -> None:
    """The group remains classic. DEV D1: its parked requests stay parked, because no answer leaves
    before the records are durable."""
    group.given_classic_group(
        given_classic_group_member("c1", ALL), given_classic_group_member("c2"), generation=5
    )
    waiting = group.send_join("c1")
    group.log_is_broken = True
    assert group.native("n1").error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.log_is_broken = False
    assert group.is_parked(waiting)
    assert group.classic.core.generation == 5
    assert group.beat("c2", 5).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_17_the_log_of_an_upgraded_group_is_compacted(group: GroupScript) -> None:
    """The log restores the same group after any amount of compaction. The classic group's tombstone
    may be cleaned up, because the consumer group's records do not need it."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}),
        given_classic_group_member("c2"),
        generation=5,
    )
    group.native("n3")
    group.join("c1", owned={"foo": (0,)})
    group.leave("c2")
    group.native("n3", 6)
    assert group.consumer.epoch == 7
    assert group.consumer.members.keys() == {"c1", "n3"}
    expected = durable_state(group.engine.state)
    for cleaned in range(len(group.log) + 1):
        log = compact_log(group.log[:cleaned]) + group.log[cleaned:]
        check_replay(log, expected, config=group.config, now_ms=group.now_ms)


def test_18_a_native_member_joins_an_eager_owner_of_all_partitions(group: GroupScript) -> None:
    """The joiner gets no partition yet, and the answer says so: its assignment is empty, not
    missing."""
    group.given_classic_group(given_classic_group_member("c1", ALL), generation=1)
    reply = group.native("n2")
    assert (reply.member_epoch, reply.assignment) == (2, frozenset())
    view = group.view()
    assert (view.group_type, view.state) == ("consumer", "Reconciling")
