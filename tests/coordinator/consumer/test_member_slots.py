"""Slots of members that left, kept for their replacements (rule 3.16, DEV D77)."""

from collections.abc import Callable

import pytest

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.member_slots import GRACES_BEFORE_ALL_REJOIN
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import TimePassed
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, make_topics

GRACE_MS = 3_000
CONFIG = GroupConfig(replacement_grace_ms=GRACE_MS, rolled_since_ms=1_000_000)
FOO_0, FOO_1, FOO_2 = ({"foo": (number,)} for number in range(3))


@pytest.fixture
def group(make_group: MakeGroup) -> GroupScript:
    """A settled group of two native members and a classic one, with a partition each."""
    made = make_group(config=CONFIG)
    made.given_consumer_group(
        given_native("n1", assigned=FOO_0),
        given_native("n2", assigned=FOO_1),
        given_classic("c1", assigned=FOO_2),
    )
    return made


def others_hear_nothing(group: GroupScript) -> None:
    """Their heartbeats change nothing."""
    assert group.native("n2", 10).assignment is None
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert group.consumer.epoch == group.consumer.assignment_epoch == 10


def test_a_replacement_gets_exactly_what_its_predecessor_had(group: GroupScript) -> None:
    """Nobody else is told anything, and the epoch stays."""
    group.native("n1", -1)
    others_hear_nothing(group)
    group.wait(1_000)
    reply = group.native("n9")
    assert reply.member_epoch == 10
    assert group.granted_partitions("n9") == FOO_0
    others_hear_nothing(group)
    group.wait(GRACE_MS)
    others_hear_nothing(group)
    assert not group.engine.state.member_slots


def test_a_classic_replacement_of_a_native_member_takes_its_slot(group: GroupScript) -> None:
    """The protocol does not matter, in either direction."""
    group.native("n1", -1)
    joined = group.join(group.take_id())
    assert group.sync_assignment(joined.member_id, joined.generation) == {"foo": (0,)}
    group.leave(joined.member_id)
    group.native("n9")
    assert group.granted_partitions("n9") == FOO_0
    others_hear_nothing(group)


def test_a_classic_replacement_of_the_last_native_member_downgrades_quietly(
    make_group: MakeGroup,
) -> None:
    """A static replacement does the same (rule 6.2). While the slot is kept, nothing is
    converted."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0), given_classic("c1", assigned=FOO_1)
    )
    group.native("n1", -1)
    group.wait(1_000)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    joined = group.join(group.take_id())
    assert isinstance(group.engine.state.group, ClassicGroup)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert group.sync_assignment(joined.member_id, joined.generation) == {"foo": (0,)}


def test_a_member_that_stays_away_costs_one_grace(group: GroupScript) -> None:
    """A scale-down: then the others get its partitions as ever."""
    group.native("n1", -1)
    group.wait(GRACE_MS - 1)
    others_hear_nothing(group)
    group.wait(1)
    group.native("n2", 10)
    assert group.consumer.epoch == group.consumer.assignment_epoch == 11
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_last_native_member_that_stays_away_downgrades_the_group(make_group: MakeGroup) -> None:
    """The downgrade begins the rebalance that follows any fence (rule 6.4): all have to rejoin, so
    the grace is longer."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0), given_classic("c1", assigned=FOO_1)
    )
    group.native("n1", -1)
    group.wait(GRACES_BEFORE_ALL_REJOIN * GRACE_MS - 1)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.wait(1)
    assert isinstance(group.engine.state.group, ClassicGroup)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_two_consumers_with_one_client_id_have_a_slot_each(group: GroupScript) -> None:
    """A live member is never replaced, and each slot is taken once."""
    group.native("n1", -1)
    group.native("n2", -1)
    assert group.native("n8").member_epoch == group.native("n9").member_epoch == 10
    assert {**group.granted_partitions("n8")} == FOO_0
    assert {**group.granted_partitions("n9")} == FOO_1
    group.native("n7")
    assert group.consumer.epoch == 11


def test_a_new_member_may_take_the_slot_before_the_returning_one(group: GroupScript) -> None:
    """Two consumers of one client id cannot be told apart: the later one joins as new."""
    group.native("n1", -1)
    group.native("new")
    group.native("returned")
    assert group.granted_partitions("new") == FOO_0
    assert group.consumer.epoch == 11


def test_a_crash_leaves_no_slot(group: GroupScript) -> None:
    """Only a member that left has given up its partitions. Its session guards those of a dead one,
    and its replacement joins as new."""
    group.native("n9")
    assert group.consumer.epoch == 11
    assert "n1" in group.consumer.members
    assert not group.engine.state.member_slots


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_static_member_has_its_slot_by_its_instance_id(make_group: MakeGroup, epoch: int) -> None:
    """The member leaves with epoch -2, as in Kafka. With -1 it leaves for good: a dynamic member is
    no replacement."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", instance_id="i1", assigned=FOO_0), given_native("n2", assigned=FOO_1)
    )
    group.native("n1", epoch, instance_id="i1")
    assert not group.engine.state.member_slots
    group.native("n9")
    assert group.consumer.epoch > 10


def test_a_static_joiner_takes_no_slot_of_a_dynamic_member(group: GroupScript) -> None:
    group.native("n1", -1)
    group.native("n9", instance_id="i9")
    assert group.consumer.epoch == 11


def test_a_client_that_returns_under_its_own_id_is_no_replacement(group: GroupScript) -> None:
    """The client starts in a new epoch, so that no request of its past counts (DEV D68)."""
    group.native("n1", -1)
    reply = group.native("n1")
    assert reply.member_epoch == group.consumer.epoch == 11
    assert not group.engine.state.member_slots


def test_who_returns_in_person_ends_its_slot_while_a_target_is_due(make_group: MakeGroup) -> None:
    """The group epoch has grown, but the assignment interval is not over yet."""
    config = GroupConfig(
        replacement_grace_ms=GRACE_MS,
        rolled_since_ms=1_000_000,
        consumer_assignment_interval_ms=10_000,
    )
    group = make_group(config=config)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0),
        given_native("n2", assigned=FOO_1),
        timestamp_ms=group.now_ms,
    )
    group.native("n1", -1)
    group.join(group.take_id(client_id="other"), client_id="other")
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (11, 10)
    group.native("n1")
    assert not group.engine.state.member_slots
    assert group.consumer.epoch == 12


def test_who_left_in_this_epoch_takes_no_slot_of_another_member(group: GroupScript) -> None:
    """The member could hold the same partition twice in one epoch, and a late commit of its past
    would take the offset back behind those of the member between."""
    group.native("n1", -1)
    assert group.native("n9").member_epoch == 10
    group.native("n9", -1)
    assert group.native("n1").member_epoch == 11
    assert group.commit("n1", 10, FOO_0)[1].error == ErrorCode.STALE_MEMBER_EPOCH


def test_another_client_is_no_replacement(group: GroupScript) -> None:
    group.native("n1", -1)
    joined = group.join(group.take_id(), client_id="other")
    assert group.consumer.epoch == 11
    assert joined.error == ErrorCode.NONE


@pytest.mark.parametrize("needs_host", [True, False])
def test_a_setting_says_whether_a_replacement_may_come_from_another_host(
    make_group: MakeGroup, needs_host: bool
) -> None:
    """Pods change their addresses."""
    config = GroupConfig(
        replacement_grace_ms=GRACE_MS, rolled_since_ms=1_000_000, replacement_needs_host=needs_host
    )
    group = make_group(config=config)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0, client_host="/10.0.0.9"),
        given_native("n2", assigned=FOO_1),
    )
    group.native("n1", -1)
    group.native("n9")
    assert group.consumer.epoch == (11 if needs_host else 10)


def test_a_replacement_with_other_topics_gets_a_new_target(group: GroupScript) -> None:
    group.native("n1", -1)
    group.native("n9", topics=("bar", "foo"))
    assert group.consumer.epoch == 11


def test_a_topic_that_only_its_member_subscribes_to_is_checked_when_the_slot_is_taken(
    make_group: MakeGroup,
) -> None:
    """The topic was created during the grace, when it had no subscriber. The slot has no share of
    it."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0, topics=("bar", "foo")),
        given_native("n2", assigned=FOO_1),
        given_native("n3", assigned=FOO_2),
    )
    group.native("n1", -1)
    group.topics = make_topics(2, foo=3, bar=1)
    assert group.native("n2", 10).assignment is None
    group.native("n9", topics=("bar", "foo"))
    assert group.consumer.epoch == group.consumer.assignment_epoch == 11
    bar = next(iter(group.topics.partitions([("bar", (0,))])))
    assert group.consumer.target_owners[bar]


def test_a_commit_in_flight_still_holds_the_partition(group: GroupScript) -> None:
    """DEV D34: the replacement waits for it, as any other member would."""
    group.commit("n1", 10, FOO_0)
    token = next(iter(group.engine.state.commits))
    group.native("n1", -1)
    group.native("n9")
    assert group.granted_partitions("n9") == {}
    group.commit_answered(token)
    group.native("n9", 10, owned={})
    assert group.granted_partitions("n9") == FOO_0


def _joins(group: GroupScript) -> None:
    group.join(group.take_id(client_id="other"), client_id="other")


def _two_leave_at_once(group: GroupScript) -> None:
    group.leave("c1", "n2")


@pytest.mark.parametrize("change", [_joins, _two_leave_at_once])
def test_a_new_target_ends_the_grace(
    group: GroupScript, change: Callable[[GroupScript], None]
) -> None:
    """The others learn of that one, so no member is spared."""
    group.native("n1", -1)
    change(group)
    group.native("n8", topics=("foo",), assignor="range")
    assert not group.engine.state.member_slots
    held = set(group.consumer.targets)
    assert held <= group.consumer.members.keys()


def test_the_last_member_leaves_no_slot(make_group: MakeGroup) -> None:
    """The group is empty immediately, for tools that reset or delete it, and earlier slots end."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(given_native("n1", assigned=FOO_0), given_native("n2"))
    group.native("n1", -1)
    group.native("n2", -1)
    assert group.view().state == "Empty"
    assert group.left_ms(DeadlineKind.GRACE, "n1") is None
    assert not group.consumer.targets


def test_a_restart_ends_the_grace(group: GroupScript) -> None:
    """The slot is durable only in so far as its partitions do not stay without a target."""
    group.native("n1", -1)
    group.restart()
    group.feed(TimePassed())
    assert group.consumer.targets.keys() == {"n2", "c1"}
    assert group.consumer.epoch == 11


def test_without_a_grace_a_leave_is_kafkas(make_group: MakeGroup) -> None:
    group = make_group()
    group.given_consumer_group(given_native("n1", assigned=FOO_0), given_native("n2"))
    group.native("n1", -1)
    assert group.consumer.epoch == 11
