"""What another member has of one that left a classic group, until its native replacement comes
(rule 3.18, DEV D85)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinator.group.member_slots import GRACES_BEFORE_ALL_REJOIN
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ReleaseBegan
from coordinator.interface.records import ClassicGroupMetadata
from coordinator.interface.volatile_records import ClassicPhase
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import (
    given_classic,
    given_classic_group_member,
    given_native,
)
from tests.support.group_script import GroupScript, make_topics, partitions, subscription

GRACE_MS, TEMPORARY_MS = 1_000, 6_000
LONG_MS = GRACES_BEFORE_ALL_REJOIN * GRACE_MS
CONFIG = GroupConfig(
    replacement_grace_ms=GRACE_MS,
    rolled_since_ms=1_000_000,
    temporary_assignment_ms=TEMPORARY_MS,
    unaffected_members_rejoin=False,
    second_target_waits=False,
)
FOO_0, FOO_1 = {"foo": (0,)}, {"foo": (1,)}
BORROWED = {"foo": (1, 2, 3)}


def start_group(make_group: MakeGroup, config: GroupConfig = CONFIG) -> GroupScript:
    """A Stable group that a leads. Of the others, b has fewest partitions."""
    made = make_group(config=config, topics=make_topics(foo=6))
    made.given_classic_group(
        given_classic_group_member("a", FOO_0),
        given_classic_group_member("b", FOO_1),
        given_classic_group_member("c", {"foo": (2, 3)}),
        given_classic_group_member("d", {"foo": (4, 5)}),
        generation=3,
    )
    return made


@pytest.fixture
def group(make_group: MakeGroup) -> GroupScript:
    """A group in a roll after c has left, and b has got what it had."""
    group = start_group(make_group)
    group.leave("c")
    group.wait(LONG_MS)
    rejoins(group)
    return group


def rejoins(group: GroupScript) -> None:
    joined = group.join("b", owned={}, generation=3)
    assert (joined.generation, joined.leader) == (3, "a")
    assert group.sync_assignment("b", 3) == BORROWED


def test_one_member_alone_rejoins_and_gets_what_was_left(make_group: MakeGroup) -> None:
    """The member rejoins in the same generation, once the grace is over."""
    group = start_group(make_group)
    group.leave("c")
    group.wait(LONG_MS - 1)
    assert group.beat("b", 3).error == ErrorCode.NONE
    group.wait(1)
    assert group.beat("b", 3).error == ErrorCode.REBALANCE_IN_PROGRESS
    rejoins(group)
    for member_id in ("a", "b", "d"):
        assert group.beat(member_id, 3).error == ErrorCode.NONE


def test_a_native_replacement_gets_it_back(group: GroupScript) -> None:
    """The group is converted with the temporary assignment, so only its owner rejoins once more."""
    assert group.native("n1").member_epoch == group.consumer.epoch == 4
    assert group.consumer.target_of("n1") == partitions({"foo": (2, 3)})
    assert group.granted_partitions("n1") == {}
    assert group.beat("b", 3).error == ErrorCode.REBALANCE_IN_PROGRESS
    group.join("b", owned={})
    assert group.sync_assignment("b", 4) == FOO_1
    group.native("n1", 4, owned={})
    assert group.granted_partitions("n1") == {"foo": (2, 3)}
    for member_id in ("a", "d"):
        assert group.beat(member_id, 3).error == ErrorCode.NONE
    assert not group.engine.state.member_slots


def test_a_temporary_owner_that_has_not_heard_yet_is_told_by_the_converted_group(
    make_group: MakeGroup,
) -> None:
    """Its client uses less than the group says, and would never ask for the rest."""
    group = start_group(make_group)
    group.leave("c")
    group.wait(LONG_MS)
    group.native("n1", topics=("bar", "foo"))
    assert group.beat("b", 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_replacement_gets_nothing_of_a_deleted_topic(group: GroupScript) -> None:
    """The replacement joins as a new member."""
    group.topics = make_topics(2, bar=1)
    group.native("n1", topics=("bar", "foo"))
    assert group.consumer.target_of("n1") == partitions({"bar": (0,)})


@pytest.fixture
def lagging(make_group: MakeGroup) -> GroupScript:
    """After a quiet downgrade: b and d still have epoch 7 (DEV D79), and b is to have from c."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_classic("b", epoch=7),
        given_classic("c", assigned=FOO_1),
        given_classic("d", epoch=7, assigned=FOO_0),
        given_native("n1", instance_id="i1", assigned={"foo": (2,)}),
    )
    group.join(instance_id="i1")
    group.leave("c")
    group.wait(LONG_MS)
    assert group.classic.core.told_to_rejoin == {"b"}
    return group


def test_a_member_with_an_older_epoch_is_left_alone(
    lagging: GroupScript,
) -> None:
    """ILLEGAL_GENERATION would make their clients drop their partitions."""
    assert lagging.beat("d", 7).error == ErrorCode.NONE
    assert lagging.beat("b", 7).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_temporary_owner_with_an_older_epoch_gives_nothing_back(lagging: GroupScript) -> None:
    """The conversion lets it continue from there, when it had not borrowed."""
    lagging.native("n2")
    assert lagging.consumer.target_of("b") == frozenset()
    assert lagging.consumer.target_of("n2") == partitions(FOO_1)


def test_a_temporary_owner_with_an_older_epoch_is_stored_once(lagging: GroupScript) -> None:
    """Its JoinGroup changes what it offers, and it lags no more."""
    joined = lagging.join("b", owned={}, generation=7, embedded_version=2)
    assert joined.generation == 10
    stored = [r for r in lagging.last_step.durable if isinstance(r, ClassicGroupMetadata)]
    assert [record.value.older_epochs for record in stored if record.value] == [{"d": 7}]


def test_a_member_that_stays_away_costs_one_temporary_assignment(group: GroupScript) -> None:
    """A scale-down: then the group rebalances as ever."""
    group.wait(TEMPORARY_MS - 1)
    assert group.beat("a", 3).error == ErrorCode.NONE
    group.wait(1)
    assert group.beat("a", 3).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert not group.engine.state.member_slots


def _a_classic_replacement(group: GroupScript) -> None:
    group.send_join(group.take_id())


def _the_temporary_owner_dies(group: GroupScript) -> None:
    for _ in range(4):
        group.wait(3_000)
        for member_id in ("a", "d"):
            group.beat(member_id, 3)


def _the_temporary_owner_joins_for_more(group: GroupScript) -> None:
    group.wait(LONG_MS)
    group.send_join("b", owned={}, topics=("foo", "bar"))


@pytest.mark.parametrize(
    "change",
    [_a_classic_replacement, _the_temporary_owner_dies, _the_temporary_owner_joins_for_more],
)
def test_a_rebalance_ends_the_temporary_assignment(
    make_group: MakeGroup, change: Callable[[GroupScript], None]
) -> None:
    group = start_group(make_group)
    group.leave("c")
    group.wait(LONG_MS)
    change(group)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    assert not group.engine.state.member_slots
    assert not group.classic.core.told_to_rejoin


def test_a_temporary_owner_that_repeats_its_join_is_answered_again(group: GroupScript) -> None:
    """Until it has got its assignment it counts as told to rejoin."""
    group.leave("d")
    group.wait(LONG_MS)
    group.join("b", owned={}, generation=3)
    group.join("b", owned={}, generation=3)
    assert group.sync_assignment("b", 3) == {"foo": (1, 2, 3, 4, 5)}
    assert group.classic.phase is ClassicPhase.STABLE


@pytest.mark.parametrize(
    "config",
    [CONFIG, replace(CONFIG, temporary_assignment_ms=0)],
    ids=["a commit in flight", "switched off"],
)
def test_nothing_is_lent_where_that_is_unsafe_or_not_wanted(
    make_group: MakeGroup, config: GroupConfig
) -> None:
    """DEV D34: the commit may be the last one of the member that left."""
    group = start_group(make_group, config)
    if config is CONFIG:
        group.commit("c", 3, {"foo": (3,)})
    group.leave("c")
    group.wait(LONG_MS)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_a_commit_of_other_partitions_does_not_prevent_a_temporary_assignment(
    make_group: MakeGroup,
) -> None:
    group = start_group(make_group)
    group.leave("c")
    group.wait(LONG_MS - 1)
    group.commit("d", 3, {"foo": (4,)})
    group.wait(1)
    assert group.classic.core.told_to_rejoin == {"b"}


def test_a_temporary_owner_that_has_to_rejoin_anyway_makes_the_group_rebalance(
    make_group: MakeGroup,
) -> None:
    """The temporary owner has given up foo-2, which waits for its rejoin."""
    group = make_group(config=CONFIG)
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    revoking = subscription(("foo",), owned={"foo": (2,)})
    group.given_classic_group(
        given_classic_group_member("a", FOO_0, **sticky),
        given_classic_group_member("b", {}, metadata=revoking, **sticky),
        given_classic_group_member("c", FOO_1, **sticky),
        generation=3,
    )
    group.leave("c")
    group.wait(LONG_MS)
    assert group.classic.core.told_to_rejoin == {"b"}
    group.send_join("b", owned={}, generation=3, **sticky)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_neither_the_leader_nor_another_subscriber_is_a_temporary_owner(
    make_group: MakeGroup,
) -> None:
    group = make_group(config=CONFIG, topics=make_topics(foo=3, bar=1))
    group.given_classic_group(
        given_classic_group_member("a", FOO_0),
        given_classic_group_member("b", {"bar": (0,)}, topics=("bar", "foo")),
        given_classic_group_member("c", {"foo": (1, 2)}),
        generation=3,
    )
    group.leave("c")
    group.wait(LONG_MS)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


@pytest.mark.parametrize("assignment", [b"\0", b"\0\0\0\0\0\0\0\0\0\1\7"])
def test_a_member_whose_assignment_says_more_is_no_temporary_owner(
    make_group: MakeGroup, assignment: bytes
) -> None:
    """What a custom assignor keeps there would be lost."""
    group = make_group(config=CONFIG)
    group.given_classic_group(
        given_classic_group_member("a", FOO_0),
        given_classic_group_member("b", assignment=assignment),
        given_classic_group_member("c", FOO_1),
        generation=3,
    )
    group.leave("c")
    group.wait(LONG_MS)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_topics_are_watched_while_nobody_leads(make_group: MakeGroup) -> None:
    """The leader has left. DEV D11: a topic that grows makes the group rebalance."""
    group = start_group(make_group)
    group.leave("a")
    group.wait(LONG_MS)
    group.beat("d", 3)
    group.topics = make_topics(2, foo=7)
    assert group.beat("d", 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_restart_ends_the_temporary_assignment(group: GroupScript) -> None:
    """The log has the removal, so the group rebalances immediately."""
    group.restart()
    assert group.beat("a", 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_is_not_handed_back_before_the_temporary_owner_knows(make_group: MakeGroup) -> None:
    group = start_group(make_group)
    group.leave("c")
    group.wait(LONG_MS)
    group.feed(ReleaseBegan())
    assert not group.engine.state.is_leaving
    rejoins(group)
    group.feed(ReleaseBegan())
    assert group.engine.state.is_leaving


def test_a_group_is_handed_back_although_its_temporary_owner_was_replaced_before_it_knew(
    make_group: MakeGroup,
) -> None:
    """The static member that replaces it gets everything immediately."""
    group = make_group(config=CONFIG)
    group.given_classic_group(
        given_classic_group_member("a", FOO_0),
        given_classic_group_member("b", instance_id="i1"),
        given_classic_group_member("c", FOO_1),
        generation=3,
    )
    group.leave("c")
    group.wait(LONG_MS)
    joined = group.join(instance_id="i1")
    assert group.sync_assignment(joined.member_id, 3) == FOO_1
    group.feed(ReleaseBegan())
    assert group.engine.state.is_leaving


def test_the_slot_of_a_temporary_owner_has_what_it_borrowed(group: GroupScript) -> None:
    """Both come back as native members, and each gets its own."""
    group.leave("b")
    group.native("n1")
    group.native("n2")
    targets = {id_: group.consumer.target_of(id_) for id_ in ("n1", "n2")}
    assert targets == {"n1": partitions({"foo": (2, 3)}), "n2": partitions(FOO_1)}
