"""Admission of a heartbeat: the member and its epoch (rules 3.3, 3.4)."""

import pytest

from coordinator.interface.config import GroupConfig, StaticTakeover
from coordinator.interface.records import MemberState
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript


def test_a_member_that_takes_over_an_instance_gives_up_its_membership(
    make_group: MakeGroup,
) -> None:
    """Its former target gets a new owner: the group computes a new target."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    group.native("n1", instance_id="i1")
    group.native("n2")
    group.native("n1", 2, owned={"foo": ()})
    assert group.native("n2", 3).member_epoch == 3
    group.native("n1", -2, instance_id="i1")
    group.native("n2", instance_id="i1")
    assert group.consumer.members.keys() == {"n2"}
    assert group.native("n2", group.consumer.epoch, owned={}).error == ErrorCode.NONE
    assert group.granted_partitions("n2") == {"foo": (0, 1, 2)}
    assert group.left_ms(DeadlineKind.SESSION, "n1") is None


def test_a_member_may_change_its_instance_id(group: GroupScript) -> None:
    """The index drops the old one (KAFKA-20747)."""
    group.native("n1", instance_id="i1")
    group.native("n1", instance_id="i2")
    assert dict(group.consumer.instances) == {"i2": "n1"}
    assert group.native("n3", instance_id="i1").error == ErrorCode.NONE


def test_a_heartbeat_with_a_foreign_instance_id_is_refused(group: GroupScript) -> None:
    """Later heartbeats with the instance id must come from its holder."""
    group.native("n1", instance_id="i1")
    group.native("n2")
    assert group.native("n2", 2, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert group.native("n1", 2, instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.native("n9", 2).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_readmits_known_members(make_group: MakeGroup) -> None:
    """The group knows them by member id or by instance id (KAFKA-20601)."""
    group = make_group(config=GroupConfig(consumer_max_size=1))
    group.native("n1", instance_id="i1")
    assert group.native("n2").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.native("n1").error == ErrorCode.NONE
    group.native("n1", -2, instance_id="i1")
    assert group.native("n2", instance_id="i1").error == ErrorCode.NONE


def test_a_static_member_returns_under_its_own_id(group: GroupScript) -> None:
    """No member leaves, and no member has to rebalance."""
    owns = {"foo": (0, 1, 2)}
    group.given_consumer_group(given_native("n1", assigned=owns, instance_id="i1"))
    group.native("n1", -2, instance_id="i1")
    reply = group.native("n1", instance_id="i1")
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, 10)
    assert group.names_of(reply.assignment) == owns
    assert group.consumer.epoch == 10


CRASHED = GroupConfig(static_takeover=StaticTakeover.CONNECTION_CLOSED)


def test_a_static_member_whose_client_has_gone_may_be_replaced(make_group: MakeGroup) -> None:
    """DEV D82: the replacement gets what its predecessor had, and nobody else is told anything."""
    owns = {"foo": (0, 1, 2)}
    group = make_group(config=CRASHED)
    group.given_consumer_group(given_native("n1", assigned=owns, instance_id="i1"))
    reply = group.native("n2", instance_id="i1", disconnected=("n1",))
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, 10)
    assert group.names_of(reply.assignment) == owns
    assert group.consumer.members.keys() == {"n2"}
    assert group.native("n1", 10).error == ErrorCode.FENCED_INSTANCE_ID
    assert group.native("n1", 10, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID


def test_a_client_that_has_gone_owns_nothing_that_it_had_to_revoke(make_group: MakeGroup) -> None:
    """DEV D82: its replacement does not take it over."""
    group = make_group(config=CRASHED)
    static_member = given_native(
        "n1",
        instance_id="i1",
        epoch=10,
        assigned={"foo": (0,)},
        pending={"foo": (1,)},
        state=MemberState.UNREVOKED_PARTITIONS,
    )
    group.given_consumer_group(
        static_member, given_native("n2", epoch=11, target={"foo": (1,)}), epoch=11
    )
    reply = group.native("n3", instance_id="i1", disconnected=("n1",))
    assert group.names_of(reply.assignment) == {"foo": (0,)}
    assert tuple(p.number for p in group.consumer.target_of("n2")) == (1,)
    assert set(group.consumer.holders.values()) == {"n3"}


@pytest.mark.parametrize(
    ("config", "disconnected"),
    [(CRASHED, ()), (CRASHED, ("n2",)), (GroupConfig(), ("n1",))],
    ids=["connected", "another", "as in Kafka"],
)
def test_a_static_member_that_may_be_there_keeps_its_instance_id(
    make_group: MakeGroup, config: GroupConfig, disconnected: tuple[str, ...]
) -> None:
    """By default every static member keeps it, whatever its connections."""
    group = make_group(config=config)
    group.given_consumer_group(given_native("n1", instance_id="i1"), given_native("n2"))
    reply = group.native("n3", instance_id="i1", disconnected=disconnected)
    assert reply.error == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_commit_of_a_client_that_has_gone_delays_its_replacement_s_fetch(
    make_group: MakeGroup,
) -> None:
    """DEV D82: the cluster may still store it."""
    group = make_group(config=CRASHED)
    group.given_consumer_group(given_native("n1", assigned={"foo": (0,)}, instance_id="i1"))
    group.commit("n1", 10, {"foo": (0,)})
    group.native("n2", instance_id="i1", disconnected=("n1",))
    fetched = group.fetch("n2", group.current("n2").member_epoch, {"foo": (0,)})
    assert fetched.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_member_that_left_temporarily_cannot_use_its_former_epoch(group: GroupScript) -> None:
    """This holds even if it states the partitions that it was assigned: no answer contains the
    epoch -2."""
    group.given_consumer_group(given_native("n1", assigned={"foo": (0,)}, instance_id="i1"))
    group.native("n1", -2, instance_id="i1")
    late = group.native("n1", 10, owned={"foo": (0,)}, instance_id="i1")
    assert late.error == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("instance_id", [None, "i2"])
def test_a_member_that_left_temporarily_may_return_with_another_instance_id_or_none(
    group: GroupScript, instance_id: str | None
) -> None:
    """DEV D26: it receives a real epoch although it has partitions to revoke, because -2 would mean
    to leave again."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}, target={"foo": (0,)}, instance_id="i1"),
        epoch=11,
    )
    group.native("n1", -2, instance_id="i1")
    reply = group.native("n1", instance_id=instance_id)
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, 11)
    assert group.names_of(reply.assignment) == {"foo": (0,)}
    assert dict(group.consumer.instances) == {instance_id or "i1": "n1"}


def test_a_member_that_turned_classic_is_fenced_at_its_former_epoch(group: GroupScript) -> None:
    """A classic member has its epoch from JoinGroup, and DEV D54 applies only to native members. A
    late heartbeat does not make the member native again."""
    classic = given_classic("n1", epoch=100, previous_epoch=99, assigned={"foo": (0,)})
    other = given_native("n2", epoch=100, assigned={"foo": (1, 2)})
    group.given_consumer_group(classic, other, epoch=100)
    assert group.native("n1", 99).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.consumer.members["n1"].is_classic


@pytest.mark.parametrize("is_fenced", [False, True])
def test_a_static_member_rejoins_in_place(group: GroupScript, is_fenced: bool) -> None:
    """DEV D91: the answer to its join was lost, or it was told FENCED_MEMBER_EPOCH. The holder of
    the instance is the member itself."""
    joined = group.native("n1", instance_id="i1")
    if is_fenced:
        assert group.native("n1", 9, instance_id="i1").error == ErrorCode.FENCED_MEMBER_EPOCH
    again = group.native("n1", instance_id="i1")
    assert (again.error, again.member_epoch) == (ErrorCode.NONE, joined.member_epoch)
    assert group.names_of(again.assignment) == {"foo": (0, 1, 2)}
    assert group.native("n2", instance_id="i1").error == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_late_copy_of_a_static_join_releases_no_partition(group: GroupScript) -> None:
    """DEV D25, D91: as for a dynamic member. Its client may have received partitions since."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}, target={"foo": (0,)}, instance_id="i1"),
        given_native("n2", target={"foo": (1,)}),
        epoch=11,
    )
    group.native("n1", instance_id="i1")
    group.native("n2", 10, owned={})
    assert group.granted_partitions("n2") == {}
    group.native("n1", 10)
    assert group.native("n1", 10, owned={"foo": (0,)}).error == ErrorCode.NONE
    assert group.names_of(group.native("n2", 11).assignment) == {"foo": (1,)}


@pytest.mark.parametrize("others", [(), ("n2",)], ids=["turns classic", "stays native"])
def test_a_native_member_that_a_classic_one_replaced_is_fenced_without_naming_its_instance(
    group: GroupScript, others: tuple[str, ...]
) -> None:
    """DEV D49: librdkafka's short heartbeats name none. With UNKNOWN_MEMBER_ID the older process
    would join again and fence the newer one."""
    group.native("n1", instance_id="i1")
    for member_id in others:
        group.native(member_id)
    epoch = group.current("n1").member_epoch
    newer = group.join(instance_id="i1")
    assert newer.error == ErrorCode.NONE
    assert group.native("n1", epoch).error == ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_was_removed_is_fenced_once_its_instance_is_taken(group: GroupScript) -> None:
    """DEV D49: until then it may join again, whatever ended its membership."""
    group.native("n1", instance_id="i1")
    group.native("n2")
    group.wait(40_000)
    group.native("n2", 2)
    group.wait(10_000)
    assert group.native("n1", 2).error == ErrorCode.UNKNOWN_MEMBER_ID
    group.join(instance_id="i1")
    assert group.native("n1", 2).error == ErrorCode.FENCED_INSTANCE_ID
    assert group.native("n3", 2).error == ErrorCode.UNKNOWN_MEMBER_ID
