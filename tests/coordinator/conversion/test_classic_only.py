"""A consumer group with only classic members (DEV D6), and its admission (DEV D60)."""

from dataclasses import replace

import pytest

from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.volatile_records import ClassicPhase, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.client_assignors import CLIENT_SIDE, weighted_assignor
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, make_topics

FOO_0 = {"foo": (0,)}
REST = {"foo": (1, 2)}

NO_DOWNGRADE = (MigrationPolicy.UPGRADE, MigrationPolicy.DISABLED)


def under(make_group: MakeGroup, policy: MigrationPolicy) -> GroupScript:
    return make_group(config=GroupConfig(consumer_migration_policy=policy))


def restart_under(group: GroupScript, **changes: object) -> None:
    """Restart the gateway with other settings."""
    group.config = replace(group.config, **changes)  # type: ignore[arg-type]
    group.restart()


def test_it_computes_its_target_itself(make_group: MakeGroup) -> None:
    """The group waits for the interval, and computes only if it has no native member."""
    group = under(make_group, MigrationPolicy.UPGRADE)
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0),
        epoch=11,
        assignment_epoch=10,
        timestamp_ms=group.now_ms - 400,
    )
    group.beat("c1", 10)
    assert group.left_ms(DeadlineKind.TARGET_DUE) == 600
    group.wait(100)
    group.beat("c1", 10)
    assert group.left_ms(DeadlineKind.TARGET_DUE) == 500
    group.native("n1")
    assert group.left_ms(DeadlineKind.TARGET_DUE) is None


def test_it_does_not_wait_for_the_target_of_a_member_that_has_gone(make_group: MakeGroup) -> None:
    """No remaining member can compute a target (rule 9.7)."""
    policy = MigrationPolicy.UPGRADE
    group = make_group(config=replace(CLIENT_SIDE, consumer_migration_policy=policy))
    computes = (weighted_assignor(-1, name="range"),)
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0),
        given_native("n1", assigned=REST, client_assignors=computes),
        epoch=11,
        assignment_epoch=10,
    )
    assert group.native("n1", 10).should_compute
    group.prepare("n1", 10)
    group.native("n1", -1)
    group.wait(0)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_native_member_that_left_temporarily_does_not_block_the_group(group: GroupScript) -> None:
    """The member sends no heartbeats, and its session may last a minute. Until then another
    leaver's partitions would have no owner, and topic changes would go unnoticed."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0),
        given_classic("c2", assigned={"foo": (1,)}),
        given_native("n1", assigned={"foo": (2,)}, instance_id="i1"),
    )
    group.native("n1", -2, instance_id="i1")
    assert group.left_ms(DeadlineKind.TARGET_DUE) is None
    group.leave("c2")
    group.wait(0)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned=FOO_0).generation == 11
    group.topics = make_topics(2, foo=4)
    group.beat("c1", 11)
    assert group.consumer.epoch == 12
    assert group.left_ms(DeadlineKind.TARGET_DUE) == 1_000
    assert group.native("n2", 0, instance_id="i1").error == ErrorCode.NONE
    assert group.left_ms(DeadlineKind.TARGET_DUE) is None


@pytest.mark.parametrize("policy", NO_DOWNGRADE)
def test_a_member_asked_to_rejoin_is_admitted(
    make_group: MakeGroup, policy: MigrationPolicy
) -> None:
    """This holds under any policy: the group itself asks for the JoinGroup, and a refusal would end
    the client."""
    group = under(make_group, policy)
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0),
        given_classic("c2", assigned={"foo": (1,)}, instance_id="i2"),
        given_native("n1", assigned={"foo": (2,)}),
    )
    group.native("n1", -1)
    group.wait(0)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1").generation == 11
    assert group.join(instance_id="i2").error == ErrorCode.NONE
    assert group.beat("c1", 11).error == ErrorCode.NONE
    assert group.view().state == "Stable"


@pytest.mark.parametrize("policy", NO_DOWNGRADE)
def test_a_new_classic_member_is_admitted_to_a_classic_only_group(
    make_group: MakeGroup, policy: MigrationPolicy
) -> None:
    """A classic consumer that restarts returns with a new id."""
    group = under(make_group, policy)
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_classic("c2"))
    group.leave("c2")
    assert group.join("c3").error == ErrorCode.NONE
    assert group.consumer.members.keys() == {"c1", "c3"}


@pytest.mark.parametrize(
    "change",
    [{"consumer_migration_policy": MigrationPolicy.DOWNGRADE}, {"classic_max_size": 2}],
    ids=["policy", "size"],
)
def test_the_group_is_downgraded_once_the_policy_allows_it(
    make_group: MakeGroup, change: dict[str, object]
) -> None:
    """The first request after the restart with another policy or limit triggers it."""
    policy = MigrationPolicy.UPGRADE
    if "classic_max_size" in change:
        policy = MigrationPolicy.BIDIRECTIONAL
    config = GroupConfig(consumer_migration_policy=policy, classic_max_size=1)
    group = make_group(config=config)
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_classic("c2", assigned=REST)
    )
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert group.left_ms(DeadlineKind.TARGET_DUE) is None
    restart_under(group, **{"classic_max_size": 2, **change})
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.wait(0)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    assert group.classic.core.generation == 10
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_native_member_becomes_classic_under_its_own_id(group: GroupScript) -> None:
    """Kafka does not check for a downgrade then. Here the group becomes classic as soon as the
    policy allows it."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n1", assigned=REST)
    )
    assert group.join("n1", owned=REST).generation == 10
    group.wait(0)
    assert group.classic.members.keys() == {"c1", "n1"}
    assert group.sync("n1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
