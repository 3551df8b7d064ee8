"""Scenarios 19 to 33: JoinGroup on a consumer group."""

import pytest

from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.records import GroupEpoch, MemberState
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript, make_topics, partitions

ALL = {"foo": (0, 1, 2)}
THREE_TOPICS = ("foo", "bar", "zar")


@pytest.mark.parametrize("embedded_version", range(4))
def test_19_a_dynamic_member_joins_in_two_steps(group: GroupScript, embedded_version: int) -> None:
    """The id that is handed out leaves no trace. The second JoinGroup creates the member."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    first = group.join(embedded_version=embedded_version)
    assert first.error == ErrorCode.MEMBER_ID_REQUIRED
    assert len(first.member_id) == 22
    assert group.last_step.records == ()
    second = group.join(first.member_id, embedded_version=embedded_version)
    assert (second.error, second.generation) == (ErrorCode.NONE, 11)
    assert (second.protocol_type, second.protocol_name) == ("consumer", "range")
    assert (second.leader, second.members) == ("", ())
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (11, 11)
    assert group.left_ms(DeadlineKind.SESSION, first.member_id) == 10_000
    assert group.left_ms(DeadlineKind.SYNC, first.member_id) == 10_000


def test_20_an_old_client_joins_in_one_step(group: GroupScript) -> None:
    """JoinGroup v3 does not support MEMBER_ID_REQUIRED."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    reply = group.join(version=3)
    assert (reply.error, reply.generation) == (ErrorCode.NONE, 11)


def test_21_a_join_that_cannot_be_written_changes_nothing(group: GroupScript) -> None:
    """The group has neither the member nor its timers."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    group.log_is_broken = True
    assert group.join("c1").error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.consumer.members.keys() == {"n1"}
    assert {key.owner for key in group.engine.state.deadlines} == {"n1"}


def test_22_a_new_static_member_joins_in_one_step(group: GroupScript) -> None:
    """The member has an instance id, so MEMBER_ID_REQUIRED is not necessary."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    reply = group.join(instance_id="i1")
    assert (reply.error, reply.generation, group.consumer.epoch) == (ErrorCode.NONE, 11, 11)


def test_23_a_static_member_returns_under_a_new_id(group: GroupScript) -> None:
    """With the same topics, the others notice nothing."""
    c1 = given_classic("c1", assigned={"foo": (0,)}, instance_id="i1")
    group.given_consumer_group(c1, given_native("n1", assigned={"foo": (1, 2)}))
    reply = group.join(instance_id="i1")
    assert reply.generation == 10
    assert reply.member_id != "c1"
    assert group.consumer.members.keys() == {reply.member_id, "n1"}
    assert not [record for record in group.last_step.durable if isinstance(record, GroupEpoch)]
    assert group.left_ms(DeadlineKind.SESSION, reply.member_id) == 10_000
    assert group.left_ms(DeadlineKind.SYNC, reply.member_id) == 10_000
    assert group.left_ms(DeadlineKind.SESSION, "c1") is None
    assert group.sync_assignment(reply.member_id, 10, instance_id="i1") == {"foo": (0,)}


def test_24_a_static_member_subscribes_to_one_more_topic(make_group: MakeGroup) -> None:
    """Kept partitions keep their epochs, and new ones have the new epoch."""
    group = make_group(topics=make_topics(foo=1, zar=1, bar=1))
    c1 = given_classic("c1", assigned={"foo": (0,)}, instance_id="i1")
    n1 = given_native("n1", topics=("bar",), assigned={"bar": (0,)})
    group.given_consumer_group(c1, n1)
    reply = group.join("c1", instance_id="i1", topics=("foo", "zar"), owned={"foo": (0,)})
    assert (reply.generation, group.consumer.epoch) == (11, 11)
    foo, zar = partitions({"foo": (0,)}), partitions({"zar": (0,)})
    assert group.current("c1").assigned == {**dict.fromkeys(foo, 10), **dict.fromkeys(zar, 11)}


def test_25_a_static_member_must_own_its_instance_id(group: GroupScript) -> None:
    """An unknown instance id with a member id is refused, and so is an instance id of another
    member."""
    group.given_consumer_group(given_classic("c1", instance_id="i1"), given_native("n1"))
    assert group.join("c1", instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.join("c2", instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID


def test_26_a_full_group_admits_only_returning_static_members(make_group: MakeGroup) -> None:
    """New members are refused."""
    group = make_group(config=GroupConfig(consumer_max_size=1))
    group.given_consumer_group(given_classic("c1", instance_id="i1", assigned=ALL))
    assert group.join("c2").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join(instance_id="i2").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join(instance_id="i1").error == ErrorCode.NONE


def test_27_a_protocol_must_fit_the_classic_members(group: GroupScript) -> None:
    """Type and name must match. Native members do not count, but the joining member counts with its
    old list."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    before = group.consumer.members["c1"]
    refused = [
        group.join("c2", protocol_type="connect"),
        group.join("c2", protocol="sticky"),
        group.join("c2", protocols=()),
        group.join("c1", protocol="sticky"),
    ]
    assert {reply.error for reply in refused} == {ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    assert {(reply.member_id, reply.generation) for reply in refused} == {("", -1)}
    assert group.consumer.members["c1"] == before


def test_28_the_policy_disabled_keeps_classic_members_out(make_group: MakeGroup) -> None:
    """This applies to new classic members, and to native ones that would turn classic. DEV D60:
    existing classic members may rejoin."""
    group = make_group(config=GroupConfig(consumer_migration_policy=MigrationPolicy.DISABLED))
    group.given_consumer_group(
        given_classic("c1", instance_id="i1"),
        given_native("n1"),
        given_native("n2", instance_id="i2"),
    )
    refused = [
        group.join("c2"),
        group.join(),
        group.join(instance_id="i3"),
        group.join("n1"),
        group.join(instance_id="i2"),
    ]
    assert {reply.error for reply in refused} == {ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    let_in = [group.join("c1", instance_id="i1"), group.join("c1"), group.join(instance_id="i1")]
    assert {reply.error for reply in let_in} == {ErrorCode.NONE}


def test_29_a_malformed_subscription_is_refused(group: GroupScript) -> None:
    """The answer is INCONSISTENT_GROUP_PROTOCOL, and the group has no new member."""
    group.given_consumer_group(given_native("n1"))
    refused = group.join("c1", metadata=b"\x00\x01 junk")
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.consumer.members.keys() == {"n1"}


def given_a_swap(group: GroupScript) -> None:
    """c1 has foo-0 and bar-0, and its target is foo-0, foo-1 and zar-0. n2 has foo-1, and its
    target is bar-0. The members are at epoch 10, the target at epoch 11."""
    group.given_consumer_group(
        given_classic(
            "c1",
            topics=THREE_TOPICS,
            assigned={"foo": (0,), "bar": (0,)},
            target={"foo": (0, 1), "zar": (0,)},
            rebalance_timeout_ms=500,
        ),
        given_native("n2", topics=("foo", "bar"), assigned={"foo": (1,)}, target={"bar": (0,)}),
        epoch=11,
    )


def test_30_an_eager_member_revokes_everything_and_rejoins(make_group: MakeGroup) -> None:
    """The member rejoins once per change of its target. The last rejoin has the same generation and
    more partitions."""
    group = make_group(topics=make_topics(foo=2, bar=1, zar=1))
    given_a_swap(group)
    how = {"topics": THREE_TOPICS, "rebalance_timeout_ms": 500}
    assert group.join("c1", **how).generation == 11
    assert group.current("c1").state is MemberState.UNRELEASED_PARTITIONS
    assert group.sync_assignment("c1", 11) == {"foo": (0,), "zar": (0,)}
    assert group.beat("c1", 11).error == ErrorCode.NONE
    assert group.native("n2", 10, owned={"foo": (1,)}).member_epoch == 10
    assert group.native("n2", 10, owned={}).member_epoch == 11
    assert group.granted_partitions("n2") == {"bar": (0,)}
    assert group.beat("c1", 11).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 500
    assert group.join("c1", **how).generation == 11
    assert group.current("c1").state is MemberState.STABLE
    assert group.sync_assignment("c1", 11) == {"foo": (0, 1), "zar": (0,)}
    assert group.left_ms(DeadlineKind.JOIN, "c1") is None
    assert group.beat("c1", 11).error == ErrorCode.NONE


def test_31_a_cooperative_member_keeps_partitions_and_rejoins(make_group: MakeGroup) -> None:
    """The member rejoins once more after it has revoked."""
    group = make_group(topics=make_topics(foo=2, bar=1, zar=1))
    given_a_swap(group)
    how = {"topics": THREE_TOPICS, "rebalance_timeout_ms": 500}
    assert group.join("c1", owned={"foo": (0,), "bar": (0,)}, **how).generation == 10
    assert group.current("c1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.sync_assignment("c1", 10) == {"foo": (0,)}
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned={"foo": (0,)}, **how).generation == 11
    assert group.current("c1").state is MemberState.UNRELEASED_PARTITIONS
    assert group.sync_assignment("c1", 11) == {"foo": (0,), "zar": (0,)}
    group.native("n2", 10, owned={"foo": (1,)})
    group.native("n2", 10, owned={})
    assert group.beat("c1", 11).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned={"foo": (0,), "zar": (0,)}, **how).generation == 11
    assert group.current("c1").state is MemberState.STABLE
    assert group.sync_assignment("c1", 11) == {"foo": (0, 1), "zar": (0,)}


def test_32_an_eager_member_after_the_upgrade(group: GroupScript) -> None:
    """Scenario 18 continues: each member has its share after one rejoin and one heartbeat."""
    group.given_classic_group(given_classic_group_member("c1", ALL), generation=1)
    group.native("n2")
    assert group.beat("c1", 2).error == ErrorCode.ILLEGAL_GENERATION
    assert group.beat("c1", 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1").generation == 2
    held = group.sync_assignment("c1", 2)["foo"]
    reply = group.native("n2", 2, topics=("foo",), owned={}, rebalance_timeout_ms=10_000)
    given = group.names_of(reply.assignment)["foo"]
    assert len(given) in (1, 2)
    assert sorted(held + given) == [0, 1, 2]
    assert group.view().state == "Stable"


def test_33_a_cooperative_member_after_the_upgrade(group: GroupScript) -> None:
    """The member first learns at its old generation which partitions it may keep."""
    group.given_classic_group(given_classic_group_member("c1", ALL), generation=1)
    group.native("n2")
    assert group.join("c1", owned=ALL).generation == 1
    held = group.sync_assignment("c1", 1)
    assert len(held["foo"]) < 3
    assert group.beat("c1", 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned=held).generation == 2
    assert group.sync_assignment("c1", 2) == held
