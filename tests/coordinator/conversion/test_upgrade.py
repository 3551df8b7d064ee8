"""Upgrades (rule 4). The scenarios cover complete histories."""

from dataclasses import replace

import pytest

from coordinator.conversion.upgrade import obstacles
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.records import (
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMetadata,
    EpochCause,
    GroupEpoch,
    MemberState,
)
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import (
    GroupScript,
    embedded_assignment,
    make_topics,
    partitions,
    read_assignment,
    subscription,
)

FOO = subscription(["foo"])


def causes(group: GroupScript) -> list[EpochCause]:
    return [r.cause for r in group.last_step.durable if isinstance(r, GroupEpoch)]


@pytest.mark.parametrize("group_is", ["classic", "empty", "gone"])
def test_a_native_member_that_outlived_its_session_joins_again(
    group: GroupScript, group_is: str
) -> None:
    """DEV D49: no other member was native, so the group is no longer a consumer group.
    GROUP_ID_NOT_FOUND would end the client; UNKNOWN_MEMBER_ID makes it join at epoch 0."""
    match group_is:
        case "classic":
            group.given_consumer_group(given_classic("c1"), given_native("n1"))
            for _ in range(6):
                group.beat("c1", 10)
                group.wait(8_000)
            assert group.view().group_type == "classic"
        case "empty":
            ids = group.stable_classic_group({"a": {}})
            group.leave(ids["a"])
            assert group.view().state == "Empty"
        case _:
            pass
    refused = group.native("n1", 10, topics=("foo",), owned={"foo": (0,)})
    assert refused.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.last_step.durable == ()
    assert group.native("n1").error == ErrorCode.NONE
    assert "n1" in group.consumer.members


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_the_policy_decides_about_a_native_rejoin(
    make_group: MakeGroup, policy: MigrationPolicy
) -> None:
    """The member learns the reason at epoch 0."""
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    group.given_classic_group(given_classic_group_member("c1"))
    assert group.native("n1", 10).error == ErrorCode.UNKNOWN_MEMBER_ID
    refused = group.native("n1")
    assert (refused.error, str(policy) in refused.reason) == (ErrorCode.GROUP_ID_NOT_FOUND, True)


def test_a_native_member_does_not_take_its_instance_back(group: GroupScript) -> None:
    """Its classic successor has the instance id. If both rejoined for ever, neither would consume,
    so the older one is fenced, as in a consumer group."""
    group.given_classic_group(given_classic_group_member("c1", instance_id="i1"))
    refused = group.native("n1", 10, instance_id="i1")
    assert refused.error == ErrorCode.FENCED_INSTANCE_ID
    assert group.native("n2", 10, instance_id="i2").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_protocol_that_a_member_dropped_is_not_used(group: GroupScript) -> None:
    """A parked JoinGroup may no longer offer the selected protocol. The upgrade then uses the
    protocol that would be selected now (as DEV D2 does for the first rebalance)."""
    both = (("range", FOO), ("sticky", FOO))
    ids = group.stable_classic_group({"a": {"foo": (0,)}, "b": {"foo": (1,)}}, protocols=both)
    assert group.classic.core.protocol == "range"
    token = group.send_join(ids["a"], protocols=(("sticky", FOO),))
    assert group.is_parked(token)
    assert group.native("n1").error == ErrorCode.NONE
    assert group.consumer.members[ids["a"]].topic_names == ("foo",)
    assert group.granted_partitions(ids["b"]) == {"foo": (1,)}


def test_a_member_at_an_older_epoch_since_the_downgrade_continues_from_there(
    group: GroupScript,
) -> None:
    """A native member left and another joined before the classic one could rejoin. The classic
    member still owns its partitions, so no other member gets them, and the group knows its
    epoch."""
    group.given_consumer_group(
        given_classic("c1", epoch=9, assigned={"foo": (0, 1, 2)}, target={"foo": (0,)}),
        given_native("n1", target={"foo": (1, 2)}, state=MemberState.UNRELEASED_PARTITIONS),
    )
    group.native("n1", -1)
    assert group.view().state == "PreparingRebalance"
    assert group.native("n2").assignment == frozenset()
    assert group.granted_partitions("c1") == {"foo": (0, 1, 2)}
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned={"foo": (0, 1, 2)}).generation == 9
    assert len(group.sync_assignment("c1", 9)["foo"]) < 3


def test_a_pending_revocation_survives_a_downgrade_and_upgrade(group: GroupScript) -> None:
    """Its deadline survives as well."""
    group.given_consumer_group(
        given_classic(
            "c1",
            assigned={"foo": (0,)},
            pending={"foo": (1,)},
            state=MemberState.UNREVOKED_PARTITIONS,
        ),
        given_native("n1"),
        epoch=11,
    )
    group.native("n1", -1)
    group.native("n2")
    assert group.current("c1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.left_ms(DeadlineKind.REVOCATION, "c1") == 10_000
    assert group.names_of(group.current("n2").assigned) == {"foo": (2,)}


def test_a_restart_after_the_downgrade_makes_no_second_owner(group: GroupScript) -> None:
    """The log has the partitions that each member holds, not its target, which another member may
    still hold."""
    group.given_consumer_group(
        given_classic("c1", epoch=9, assigned={"foo": (0, 1)}, target={"foo": (0,)}),
        given_classic("c2", target={"foo": (1,)}, state=MemberState.UNRELEASED_PARTITIONS),
        given_native("n1"),
    )
    group.native("n1", -1)
    group.restart()
    stored = {id_: m.assignment for id_, m in group.classic.members.items()}
    assert read_assignment(stored["c2"]) == {}
    assert read_assignment(stored["c1"]) == {"foo": (0, 1)}


def test_a_rebalance_that_an_upgrade_interrupts_is_not_forgotten(group: GroupScript) -> None:
    """c2 leaves, and c1 returns as native with the same topics. That alone bumps nothing, and the
    partitions of c2 would stay unassigned."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}, instance_id="i1"),
        given_classic_group_member("c2", {"foo": (1, 2)}),
        generation=4,
    )
    group.leave("c2")
    reply = group.native("n1", instance_id="i1")
    assert reply.member_epoch == 5
    assert group.names_of(reply.assignment) == {"foo": (0, 1, 2)}
    assert causes(group) == [EpochCause.CONVERTED, EpochCause.REBALANCE_INTERRUPTED]


def test_a_topic_that_grew_before_an_upgrade_is_not_forgotten(group: GroupScript) -> None:
    """c1 led and no longer watched its topics when it restarted as a native member. That alone
    bumps nothing, and the new partition would never be assigned. The other topic is complete."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}, instance_id="i1"),
        given_classic_group_member("c2", {"foo": (1, 2), "bar": (0,)}, topics=("foo", "bar")),
        generation=4,
    )
    group.topics = make_topics(foo=4, bar=1)
    reply = group.native("n1", instance_id="i1")
    assert reply.member_epoch == 5
    assert group.names_of(reply.assignment) == {"foo": (0, 3)}
    assert causes(group) == [EpochCause.CONVERTED, EpochCause.REBALANCE_INTERRUPTED]


def test_a_member_that_has_not_synced_is_asked_to_rejoin(group: GroupScript) -> None:
    """The leader has synced, so the group is Stable, but b has not. Its SyncGroup names the
    protocol of the classic group, which is not its first, and a refusal would end its client."""
    both = (("sticky", FOO), ("range", FOO))
    leader = group.send_join(instance_id="i1", protocols=both[::-1])
    follower = group.send_join(instance_id="i2", protocols=both)
    group.wait(6_000)
    joined, joined_b = group.answer(leader, JoinGroupReply), group.answer(follower, JoinGroupReply)
    assert joined_b.protocol_name == "range"
    group.send_sync(joined.member_id, 1, assignments={joined_b.member_id: {"foo": (0, 1, 2)}})
    assert group.native("n1", instance_id="i1").error == ErrorCode.NONE
    late = group.sync(joined_b.member_id, 1, instance_id="i2")
    assert late.error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_joiner_that_changes_the_group_is_the_cause_of_the_bump(group: GroupScript) -> None:
    """The epoch is bumped once, and the log names the joiner."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}),
        given_classic_group_member("c2"),
        generation=4,
    )
    group.leave("c2")
    assert group.native("n1").member_epoch == 5
    assert causes(group) == [EpochCause.CONVERTED, EpochCause.MEMBER_JOINED]


def test_an_empty_group_has_no_rebalance_to_interrupt(group: GroupScript) -> None:
    """A joiner without subscription bumps nothing, whatever the group's history."""
    group.given_classic_group(given_classic_group_member("c1"))
    group.leave("c1")
    assert group.native("n1", topics=()).member_epoch == 1


def test_a_partition_that_a_cooperative_member_is_revoking_is_not_free(group: GroupScript) -> None:
    """The member was assigned less than it owned at its join. Until it has stated the revocation,
    no other member may get the rest."""
    owns = {"foo": (0, 1, 2)}
    c1 = given_classic_group_member("c1", {"foo": (0,)}, metadata=subscription(["foo"], owned=owns))
    group.given_classic_group(c1, generation=4)
    assert group.native("n1").assignment == frozenset()
    assert group.current("c1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.granted_partitions("c1") == {"foo": (0,)}
    assert group.left_ms(DeadlineKind.REVOCATION, "c1") == 10_000
    assert group.beat("c1", 4).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned={"foo": (0,)}).generation == 5
    granted = group.native("n1", 5).assignment
    assert granted
    assert granted | group.current("c1").assigned.keys() == partitions(owns)


def test_a_cooperative_member_keeps_an_assignment_discarded_by_an_interrupted_rebalance(
    group: GroupScript,
) -> None:
    """A join phase that interrupts another discards the assignments, but the members do not learn
    that."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0, 1)}),
        given_classic_group_member("c2", {"foo": (2,)}),
        generation=4,
    )
    group.send_join("c1", owned={"foo": (0, 1)})
    group.send_join("c2", owned={"foo": (2,)})
    group.leave("c2")  # after the join phase, before the leader's SyncGroup
    assert group.classic.members["c1"].assignment == b""
    assert group.names_of(group.native("n1").assignment) == {"foo": (2,)}
    assert group.granted_partitions("c1") == {"foo": (0, 1)}


def test_the_claim_of_the_newer_generation_wins(group: GroupScript) -> None:
    """The cooperative assignors do the same: the other member missed that it lost the partition."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}),
        given_classic_group_member("c2", {"foo": (0,)}),
        generation=4,
    )
    group.send_join("c1", owned={"foo": (0, 1)}, generation=3, embedded_version=2)
    group.send_join("c2", owned={"foo": (0,)}, generation=4, embedded_version=2)
    group.send_join(instance_id="i3")  # the join phase is over, so this interrupts the sync phase
    group.native("n1")
    assert group.granted_partitions("c1") == {"foo": (1,)}
    assert group.granted_partitions("c2") == {"foo": (0,)}


def test_a_claim_from_an_earlier_group_of_the_same_name_loses(group: GroupScript) -> None:
    """This group has not reached its generation, so it proves nothing."""
    group.given_classic_group(
        given_classic_group_member("c1"), given_classic_group_member("c2"), generation=4
    )
    group.send_join("c1", owned={"foo": (0, 1)}, generation=38, embedded_version=2)
    group.send_join("c2", owned={"foo": (0,)}, generation=4, embedded_version=2)
    group.send_join(instance_id="i3")
    group.native("n1")
    assert group.current("c2").held_partitions.keys() == group.topics.partitions(
        {"foo": (0,)}.items()
    )
    assert group.current("c1").held_partitions.keys() == group.topics.partitions(
        {"foo": (1,)}.items()
    )


@pytest.mark.parametrize("after_restart", [False, True])
@pytest.mark.parametrize("topic", ["foo", "new"])
def test_a_member_that_was_told_more_than_it_keeps_rejoins(
    group: GroupScript, topic: str, *, after_restart: bool
) -> None:
    """DEV D3: its client uses foo-0, which c1 keeps, or new-0, which the gateway did not know yet.
    Nothing in its target shows that, so it would use the partition for ever (rule 5.11)."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0, 1, 2)}),
        given_classic_group_member("c2", {topic: (0,)}),
        generation=4,
    )
    group.native("n1")
    if after_restart:
        group.restart()
    assert group.current("c2").held_partitions == {}
    assert group.left_ms(DeadlineKind.REVOCATION, "c2") == 10_000
    assert group.beat("c2", 4).error == ErrorCode.REBALANCE_IN_PROGRESS
    generation = group.join("c2").generation
    assert group.current("c2").state is not MemberState.UNREVOKED_PARTITIONS
    assert group.sync_assignment("c2", generation) == group.granted_partitions("c2")


def test_a_member_that_was_told_more_than_it_keeps_may_become_native(group: GroupScript) -> None:
    """The process is new and owns nothing, so nothing is left to give up."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0, 1, 2)}),
        given_classic_group_member("c2", {"foo": (0,)}),
        generation=4,
    )
    group.native("n1")
    group.native("c2")
    assert group.current("c2").state is not MemberState.UNREVOKED_PARTITIONS
    assert group.left_ms(DeadlineKind.REVOCATION, "c2") is None


def test_partitions_given_up_during_the_upgrade_get_an_owner(group: GroupScript) -> None:
    """A static member returns as native with the same topics. That alone bumps nothing, and foo-2,
    which c1 gives up, would stay unassigned."""
    owns = subscription(["foo"], owned={"foo": (0, 1, 2)})
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}, metadata=owns),
        given_classic_group_member("c2", {"foo": (1,)}, instance_id="i2"),
        generation=4,
    )
    group.native("n2", instance_id="i2")
    assert group.names_of(group.current("c1").pending_revocation) == {"foo": (2,)}
    assert group.consumer.epoch == 5
    targets = [group.consumer.target_of(id_) for id_ in ("c1", "n2")]
    assert frozenset.union(*targets) == partitions({"foo": (0, 1, 2)})


def test_an_upgrade_keeps_the_members_identities(group: GroupScript) -> None:
    """Client, timeouts, instance and protocols stay. Topics are sorted, and an empty rack counts as
    none."""
    metadata = subscription(["foo", "bar"], rack_id="", version=3)
    group.given_classic_group(given_classic_group_member("c1", {"foo": (0,)}, metadata=metadata))
    before = group.classic.members["c1"]
    group.native("n1")
    after = group.consumer.members["c1"]
    assert (after.client_id, after.client_host) == (before.client_id, before.client_host)
    assert after.rebalance_timeout_ms == before.rebalance_timeout_ms
    assert after.classic == ClassicMetadata(
        session_timeout_ms=before.session_timeout_ms, protocols=before.protocols
    )
    assert (after.topic_names, after.rack_id) == (("bar", "foo"), None)


def test_an_upgrade_keeps_the_racks_of_classic_members(group: GroupScript) -> None:
    """The embedded subscription has the rack from version 3 on (KIP-881)."""
    metadata = subscription(["foo"], rack_id="eu-west-1a", version=3)
    group.given_classic_group(given_classic_group_member("c1", {"foo": (0,)}, metadata=metadata))
    group.native("n1")
    assert group.consumer.members["c1"].rack_id == "eu-west-1a"


def test_sticky_user_data_does_not_prevent_an_upgrade(group: GroupScript) -> None:
    """DEV D23: the engine already knows the data that librdkafka's leaders keep in assignments."""
    stored = embedded_assignment({"foo": (0, 1, 2)}, user_data=b"memory")
    c1 = replace(given_classic_group_member("c1", assignment=stored), protocols=(("sticky", FOO),))
    value = ClassicGroupValue(
        protocol_type="consumer", generation=3, protocol="sticky", leader="c1", members=(c1,)
    )
    group.load(ClassicGroupMetadata(value=value))
    assert group.native("n1").error == ErrorCode.NONE
    assert group.granted_partitions("c1") == {"foo": (0, 1, 2)}


def test_the_obstacles_of_an_upgrade_are_known_beforehand() -> None:
    """All of them, where a refused heartbeat names the first."""
    fine = given_classic_group_member("a", metadata=FOO)
    group = ClassicGroupValue(
        protocol_type="consumer", generation=1, protocol="range", leader="a", members=(fine,)
    )
    assert tuple(obstacles(group, GroupConfig())) == ()
    broken = replace(fine, member_id="b", protocols=(("range", b"\0"),))
    config = GroupConfig(consumer_migration_policy=MigrationPolicy.DISABLED)
    policy, subscribed = obstacles(replace(group, members=(fine, broken)), config)
    assert policy.startswith("the migration policy disabled")
    assert subscribed.startswith("b: the embedded consumer protocol is malformed")
