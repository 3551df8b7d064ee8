"""Heartbeat on a consumer group (rule 5.7). Scenarios 42 to 44 cover its answers."""

from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, make_topics

FOO_0, FOO_1 = {"foo": (0,)}, {"foo": (1,)}
SPARES = GroupConfig(unaffected_members_rejoin=False)


def test_a_heartbeat_writes_no_record(group: GroupScript) -> None:
    """A heartbeat bumps nothing and computes no target. It restarts the session, whatever its
    answer."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n1"), epoch=11, assignment_epoch=10
    )
    group.wait(2_000)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert group.last_step.durable == ()
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 10_000


def test_a_member_asked_to_rejoin_stays_in_the_group(group: GroupScript) -> None:
    """REBALANCE_IN_PROGRESS restarts the session too, and starts the join timer once."""
    group.given_consumer_group(given_classic("c1", epoch=9, assigned=FOO_0), given_native("n1"))
    group.wait(2_000)
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.last_step.durable == ()
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 10_000
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 8_000  # since the group was loaded


def test_classic_members_alone_notice_that_a_topic_grew(make_group: MakeGroup) -> None:
    """DEV D6: no native member would check. The group computes the next target after the interval,
    and then asks the members to rejoin."""
    policy = MigrationPolicy.UPGRADE
    group = make_group(config=GroupConfig(consumer_migration_policy=policy))
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": (0, 1, 2)}), timestamp_ms=group.now_ms
    )
    group.topics = make_topics(2, foo=4)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert group.consumer.epoch == 11
    group.wait(999)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.wait(1)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("c1", owned={"foo": (0, 1, 2)}).generation == 11
    assert group.sync_assignment("c1", 11) == {"foo": (0, 1, 2, 3)}


def test_among_native_members_a_classic_heartbeat_does_not_check_topics(group: GroupScript) -> None:
    """The next native heartbeat does, as in Kafka."""
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_native("n1"))
    group.topics = make_topics(2, foo=4)
    group.beat("c1", 10)
    assert group.consumer.epoch == 10
    group.native("n1", 10)
    assert group.consumer.epoch == 11


def test_a_heartbeat_with_a_foreign_instance_id_is_fenced(group: GroupScript) -> None:
    """The client learns that another member has its instance id (KIP-345)."""
    group.given_consumer_group(
        given_classic("c1", instance_id="i1"), given_classic("c2"), given_native("n1")
    )
    assert group.beat("c1", 10, instance_id="i1").error == ErrorCode.NONE
    assert group.beat("c2", 10, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert group.beat("c2", 10, instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_would_gain_and_lose_nothing_is_not_asked_to_rejoin(
    make_group: MakeGroup,
) -> None:
    """Rule 5.11, DEV D79. It keeps its epoch, however many targets follow, and commits with it."""
    group = make_group(config=SPARES)
    group.given_consumer_group(
        given_classic("c1", epoch=8, assigned=FOO_0), given_native("n1", assigned=FOO_1)
    )
    assert group.beat("c1", 8).error == ErrorCode.NONE
    assert group.left_ms(DeadlineKind.JOIN, "c1") is None
    assert group.view().state == "Stable"
    _token, verdict = group.commit("c1", 8, FOO_0)
    assert verdict.error == ErrorCode.NONE
    assert group.fetch("c1", 8).error == ErrorCode.NONE


def test_in_kafka_every_member_behind_the_target_rejoins(group: GroupScript) -> None:
    """The default of the engine."""
    group.given_consumer_group(given_classic("c1", epoch=9, assigned=FOO_0), given_native("n1"))
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_must_give_up_a_partition_rejoins(make_group: MakeGroup) -> None:
    """Rule 5.11: others wait for it."""
    group = make_group(config=SPARES)
    group.given_consumer_group(
        given_classic("c1", epoch=9, assigned={"foo": (0, 1)}, target=FOO_0),
        given_native("n1", target=FOO_1),
    )
    assert group.view().state == "Reconciling"
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 10_000
    assert group.join("c1", owned={}).generation == 10


def test_a_member_rejoins_for_a_partition_once_it_is_free(make_group: MakeGroup) -> None:
    """Rule 5.11: earlier it would give up all that it has, and get no more."""
    group = make_group(config=SPARES)
    group.given_consumer_group(
        given_classic("c1", epoch=9, assigned=FOO_0, target={"foo": (0, 1)}),
        given_native("n1", epoch=9, assigned=FOO_1, target={}),
    )
    assert group.beat("c1", 9).error == ErrorCode.NONE
    group.native("n1", 9)
    assert group.beat("c1", 9).error == ErrorCode.NONE
    group.native("n1", 9, owned={})
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    group.join("c1", owned={})
    assert group.sync_assignment("c1", 10) == {"foo": (0, 1)}
