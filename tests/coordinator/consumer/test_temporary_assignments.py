"""Partitions that another member has until a replacement comes (rule 3.18, DEV D85)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.group.member_slots import GRACES_BEFORE_ALL_REJOIN
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import TimePassed
from coordinator.interface.records import GroupEpoch
from coordinator.interface.roll_policy import RollPolicy
from coordinator.interface.volatile_records import ClassicPhase, MemberSlotMoved, ProtocolChanged
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.client_assignors import weighted_assignor
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, make_topics, partitions

GRACE_MS, TEMPORARY_MS = 3_000, 6_000
CONFIG = GroupConfig(
    replacement_grace_ms=GRACE_MS,
    rolled_since_ms=1_000_000,
    temporary_assignment_ms=TEMPORARY_MS,
    unaffected_members_rejoin=False,
    second_target_waits=False,
)
FOO_0, FOO_1, FOO_2, FOO_3 = ({"foo": (number,)} for number in range(4))


def start_roll(make_group: MakeGroup, config: GroupConfig = CONFIG, **how: object) -> GroupScript:
    """A settled group in the middle of a roll: n2 has fewest partitions of the native members."""
    group = make_group(config=config, topics=make_topics(foo=6))
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 4)}),
        given_native("n2", assigned=FOO_1),
        given_native("n3", assigned={"foo": (3, 5)}),
        given_classic("c1", assigned=FOO_2),
        timestamp_ms=group.now_ms - 10_000,
    )
    group.native("n2", 10, owned=FOO_1)
    return group


def start_reassigned(make_group: MakeGroup) -> GroupScript:
    """A group in a roll after n2 was told that it temporarily owns what n1 had."""
    group = start_roll(make_group)
    group.native("n1", -1)
    group.wait(GRACE_MS)
    group.native("n2", 10, owned=FOO_1)
    return group


def test_one_native_member_has_the_partitions_until_the_replacement_comes(
    make_group: MakeGroup,
) -> None:
    """Nobody else is told anything, and the temporary owner gives up nothing of its own."""
    group = start_roll(make_group)
    group.native("n1", -1)
    group.wait(GRACE_MS)
    reply = group.native("n2", 10, owned=FOO_1)
    assert reply.member_epoch == 11
    assert group.granted_partitions("n2") == {"foo": (0, 1, 4)}
    assert group.native("n3", 10, owned={"foo": (3, 5)}).assignment is None
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    assert group.native("n9").member_epoch == 12
    assert group.granted_partitions("n9") == {}
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    group.native("n2", 11, owned=FOO_1)
    group.native("n9", 12, owned={})
    assert group.granted_partitions("n9") == {"foo": (0, 4)}
    assert group.granted_partitions("n2") == FOO_1
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert not group.engine.state.member_slots


def test_the_next_member_is_expected_to_be_away_as_long(make_group: MakeGroup) -> None:
    """A member that is expected back too late gets no grace."""
    group = start_roll(make_group)
    group.native("n1", -1)
    group.wait(GRACE_MS + 1_000)
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    group.native("n9")
    group.native("n3", 10, owned={"foo": (3, 5)})
    group.native("n3", -1)
    assert group.consumer.epoch == 13
    assert group.consumer.target_of("n2") == partitions({"foo": (1, 3, 5)})


def test_a_quick_roll_waits_for_each_replacement(make_group: MakeGroup) -> None:
    group = start_roll(make_group)
    group.native("n1", -1)
    group.wait(GRACE_MS - 1)
    group.native("n9")
    group.native("n3", -1)
    assert group.consumer.epoch == 10


def test_a_classic_replacement_gets_the_partitions_back(make_group: MakeGroup) -> None:
    """The replacement gets them at the first heartbeat after the temporary owner has revoked
    them."""
    group = start_reassigned(make_group)
    joined = group.join(group.take_id())
    assert group.sync_assignment(joined.member_id, 12) == {}
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    assert group.beat(joined.member_id, 12).error == ErrorCode.NONE
    group.native("n2", 11, owned=FOO_1)
    assert group.beat(joined.member_id, 12).error == ErrorCode.REBALANCE_IN_PROGRESS
    group.join(joined.member_id, owned={})
    assert group.sync_assignment(joined.member_id, 12) == {"foo": (0, 4)}


def test_a_member_that_stays_away_costs_one_temporary_assignment(make_group: MakeGroup) -> None:
    """A scale-down: then the partitions are distributed as ever."""
    group = start_reassigned(make_group)
    group.wait(TEMPORARY_MS - 1)
    assert group.consumer.epoch == 11
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    group.wait(1)
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    assert group.consumer.epoch == group.consumer.assignment_epoch == 12
    loads = {id_: len(group.consumer.target_of(id_)) for id_ in ("n2", "n3", "c1")}
    assert loads == {"n2": 2, "n3": 2, "c1": 2}


def test_nothing_is_lent_once_a_roll_is_over(make_group: MakeGroup) -> None:
    """The slot was kept before."""
    group = make_group(config=replace(CONFIG, rolled_since_ms=None, roll_pause_ms=GRACE_MS))
    group.given_consumer_group(given_native("n1", assigned=FOO_0), given_native("n2"))
    group.native("n2", 10, owned={})
    group.engine.apply(ProtocolChanged(group.now_ms))
    group.native("n1", -1)
    assert group.engine.state.member_slots
    group.wait(GRACE_MS)
    assert not group.engine.state.member_slots


@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, temporary_assignment_ms=0),
        replace(CONFIG, unaffected_members_rejoin=True),
        replace(CONFIG, roll_policy=RollPolicy(is_paused=True)),
    ],
    ids=["switched off", "all rejoin", "paused"],
)
def test_nothing_is_lent_where_that_would_disturb_or_is_not_wanted(
    make_group: MakeGroup, config: GroupConfig
) -> None:
    group = start_roll(make_group, config)
    group.native("n1", -1)
    group.wait(GRACE_MS)
    assert not group.engine.state.member_slots
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (11, 10)


def test_only_a_native_member_with_the_same_subscription_is_a_temporary_owner(
    make_group: MakeGroup,
) -> None:
    """A classic one would have to rejoin, and could not be hurried."""
    group = make_group(config=CONFIG, topics=make_topics(foo=3, bar=1))
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0),
        given_native("n2", topics=("bar", "foo"), assigned={"bar": (0,)}),
        given_native("n3", instance_id="i3", assigned=FOO_1),
        given_classic("c1", protocol="cooperative-sticky", assigned=FOO_2),
        timestamp_ms=group.now_ms,
    )
    group.native("n2", 10, owned={"bar": (0,)})
    group.native("n3", -2, instance_id="i3")
    group.native("n1", -1)
    group.wait(GRACE_MS)
    assert not group.engine.state.member_slots
    assert group.consumer.epoch == 11


def downgrading(make_group: MakeGroup, config: GroupConfig = CONFIG, **how: object) -> GroupScript:
    """The last native member has left, and c2, an eager member, has what it had."""
    group = make_group(config=config, topics=make_topics(foo=6))
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 4)}, **how),
        given_classic("c1", assigned={"foo": (1, 3)}),
        given_classic("c2", assigned={"foo": (2, 5)}),
        timestamp_ms=group.now_ms - 10_000,
    )
    group.native("n1", 10, owned={"foo": (0, 4)})
    group.native("n1", -1)
    group.wait(GRACES_BEFORE_ALL_REJOIN * GRACE_MS)
    owner = next(id_ for id_ in ("c1", "c2") if len(group.consumer.target_of(id_)) == 4)
    assert group.beat(owner, 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    group.join(owner, owned={})
    assert len(group.sync_assignment(owner, 11)["foo"]) == 4
    return group


def test_where_no_member_is_native_a_classic_one_is_the_temporary_owner(
    make_group: MakeGroup,
) -> None:
    """Only it rejoins. The group is downgraded once all have their own again, without a
    rebalance."""
    group = downgrading(make_group)
    owner = next(id_ for id_ in ("c1", "c2") if len(group.granted_partitions(id_)["foo"]) == 4)
    other = "c1" if owner == "c2" else "c2"
    joined = group.join(group.take_id())
    assert group.sync_assignment(joined.member_id, 12) == {}
    group.wait(0)
    assert group.beat(owner, 11).error == ErrorCode.REBALANCE_IN_PROGRESS
    group.join(owner, owned={})
    assert len(group.sync_assignment(owner, 12)["foo"]) == 2
    assert group.beat(joined.member_id, 12).error == ErrorCode.REBALANCE_IN_PROGRESS
    group.join(joined.member_id, owned={})
    assert group.view().group_type == "consumer"
    assert group.sync_assignment(joined.member_id, 12) == {"foo": (0, 4)}
    group.wait(0)
    assert group.classic.phase is ClassicPhase.STABLE
    for member_id, epoch in ((owner, 12), (joined.member_id, 12), (other, 10)):
        assert group.beat(member_id, epoch).error == ErrorCode.NONE


def test_a_classic_replacement_does_not_count_as_other_assignors(make_group: MakeGroup) -> None:
    """A target for that would come from a server-side assignor, and ignore what the members' own
    one needs. The classic group would keep it."""
    client_side = replace(CONFIG, client_side_assignors=True)
    assignors = (weighted_assignor(-1, name="range"),)
    group = downgrading(make_group, client_side, client_assignors=assignors)
    joined = group.join(group.take_id())
    assert group.consumer.epoch == group.consumer.assignment_epoch == 12
    assert group.consumer.target_of(joined.member_id) == partitions({"foo": (0, 4)})


def test_a_classic_temporary_assignment_that_ends_makes_the_group_classic(
    make_group: MakeGroup,
) -> None:
    """A scale-down: then all rejoin, as ever."""
    group = downgrading(make_group)
    group.wait(TEMPORARY_MS)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_a_temporary_owner_that_dies_while_it_gives_back_makes_the_group_classic(
    make_group: MakeGroup,
) -> None:
    """The group waits for it no longer than its session."""
    group = downgrading(make_group)
    group.send_join(group.take_id())
    group.wait(10_000)
    assert group.view().group_type == "classic"


def _joins(group: GroupScript) -> None:
    group.join(group.take_id(client_id="other"), client_id="other")


def _temporary_owner_ends(group: GroupScript) -> None:
    group.wait(GroupConfig().consumer_session_timeout_ms - GRACE_MS)


@pytest.mark.parametrize("change", [_joins, _temporary_owner_ends])
def test_a_computed_target_ends_the_temporary_assignment(
    make_group: MakeGroup, change: Callable[[GroupScript], None]
) -> None:
    """Who comes back then joins as new."""
    group = start_roll(make_group, replace(CONFIG, temporary_assignment_ms=100_000))
    group.native("n1", -1)
    group.wait(GRACE_MS)
    change(group)
    before = group.consumer.epoch
    group.native("n9")
    group.native("n9", 0)
    assert group.consumer.epoch == before + 1
    assert not group.engine.state.member_slots
    assert group.consumer.targets.keys() <= group.consumer.members.keys()


def test_who_returns_while_a_target_is_due_joins_as_new(make_group: MakeGroup) -> None:
    """The assignment interval holds for temporary assignments, too."""
    group = start_roll(make_group, replace(CONFIG, second_target_waits=True))
    group.native("n1", -1)
    group.wait(GRACE_MS)
    group.native("n9")
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (12, 11)
    assert not group.engine.state.member_slots
    group.wait(1_000)
    group.native("n9", group.consumer.assignments["n9"].member_epoch, owned={})
    assert group.consumer.assignment_epoch == 12


def test_the_replacement_of_a_temporary_owner_passes_them_on(make_group: MakeGroup) -> None:
    """Its slot has what it borrowed. Then the first member comes back, and gets its own."""
    group = start_reassigned(make_group)
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    group.native("n2", -1)
    group.native("n8")
    group.native("n9")
    targets = {id_: group.consumer.target_of(id_) for id_ in ("n8", "n9")}
    assert targets == {"n8": partitions({"foo": (0, 4)}), "n9": partitions(FOO_1)}


def test_what_a_temporary_owner_has_passed_on_goes_back_to_whom_it_belongs(
    make_group: MakeGroup,
) -> None:
    """Its own slot then lacks that, so its own replacement does not take it from another member."""
    group = start_reassigned(make_group)
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    group.native("n2", -1)
    group.wait(GRACE_MS)
    assert group.engine.state.member_slots["n2"].reassigned == partitions({"foo": (0, 1, 4)})
    group.native("n3", 11, owned={"foo": (3, 5)})
    group.native("n8")
    assert group.engine.state.member_slots["n2"].reassigned == partitions(FOO_1)
    group.wait(GroupConfig().consumer_assignment_interval_ms)
    group.native("n9")
    targets = {id_: group.consumer.target_of(id_) for id_ in ("n8", "n9")}
    assert targets == {"n8": partitions({"foo": (0, 4)}), "n9": partitions(FOO_1)}


def test_what_a_temporary_owner_has_passed_on_comes_back_with_its_replacement(
    make_group: MakeGroup,
) -> None:
    """The first member's replacement gets it from there. The target would have no effect otherwise,
    and no other one would be computed."""
    group = start_reassigned(make_group)
    slot = group.engine.state.member_slots["n1"]
    assert slot.member is not None
    of_other_client = replace(slot, member=replace(slot.member, client_id="other"))
    group.engine.apply(MemberSlotMoved("n1", of_other_client))
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    group.native("n2", -1)
    group.wait(GRACE_MS)
    group.native("n3", 11, owned={"foo": (3, 5)})
    group.native("n8")
    assert group.consumer.target_of("n8") == partitions({"foo": (0, 1, 4)})
    group.wait(GroupConfig().consumer_assignment_interval_ms)
    group.native("n9", client_id="other")
    targets = {id_: group.consumer.target_of(id_) for id_ in ("n8", "n9")}
    assert targets == {"n8": partitions(FOO_1), "n9": partitions({"foo": (0, 4)})}


def test_a_restart_ends_the_temporary_assignment(make_group: MakeGroup) -> None:
    """The owners of the partitions are no longer known, so they are distributed."""
    group = start_reassigned(make_group)
    group.restart()
    group.feed(TimePassed())
    assert any(isinstance(record, GroupEpoch) for record in group.last_step.records)
    group.native("n2", 11, owned={"foo": (0, 1, 4)})
    assert max(len(target) for target in group.consumer.targets.values()) == 2


def test_another_client_with_the_id_of_one_that_has_lent_ends_its_slot(
    make_group: MakeGroup,
) -> None:
    """A client cannot both be a member and have left a slot. Its target waits for the interval
    here."""
    group = start_roll(make_group, replace(CONFIG, second_target_waits=True))
    group.native("n1", -1)
    group.wait(GRACE_MS)
    group.join("n1", client_id="other")
    assert group.consumer.assignment_epoch < group.consumer.epoch
    assert not group.engine.state.member_slots


def test_who_has_lent_may_return_under_its_own_id(make_group: MakeGroup) -> None:
    """The member starts in a new epoch, so no commit of its past counts (DEV D68)."""
    group = start_roll(make_group)
    group.native("n1", -1)
    group.wait(GRACE_MS)
    assert group.native("n1").member_epoch == 12
    assert group.consumer.target_of("n1") == partitions({"foo": (0, 4)})
    assert group.commit("n1", 10, FOO_0)[1].error == ErrorCode.STALE_MEMBER_EPOCH
