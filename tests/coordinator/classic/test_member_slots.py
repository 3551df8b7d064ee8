"""Slots of members that left a classic group (rule 3.16, DEV D77)."""

from collections.abc import Callable

import pytest

from coordinator.classic import member_slots
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.member_slots import GRACES_BEFORE_ALL_REJOIN
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ReleaseBegan
from coordinator.interface.volatile_records import (
    ClassicGroupMemberDropped,
    ClassicPhase,
    DeadlineKind,
)
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript, make_topics, subscription

STICKY = "cooperative-sticky"
GRACE_MS = 1_000
LONG_MS = GRACES_BEFORE_ALL_REJOIN * GRACE_MS
CONFIG = GroupConfig(
    replacement_grace_ms=GRACE_MS, rolled_since_ms=1_000_000, unaffected_members_rejoin=False
)


@pytest.fixture
def group(make_group: MakeGroup) -> GroupScript:
    """A Stable group of three, led by a."""
    made = make_group(config=CONFIG)
    made.given_classic_group(
        given_classic_group_member("a", {"foo": (0,)}),
        given_classic_group_member("b", {"foo": (1,)}),
        given_classic_group_member("c", {"foo": (2,)}),
        generation=3,
    )
    return made


def others_hear_nothing(group: GroupScript, *others: str) -> None:
    for member_id in others or ("b", "c"):
        assert group.beat(member_id, 3).error == ErrorCode.NONE


def test_a_classic_replacement_gets_what_its_predecessor_was_assigned(group: GroupScript) -> None:
    """The replacement joins in the same generation. The client that left is no longer a member."""
    group.leave("b")
    assert group.beat("b", 3).error == ErrorCode.UNKNOWN_MEMBER_ID
    others_hear_nothing(group, "a", "c")
    group.wait(LONG_MS - 1)
    joined = group.join(group.take_id())
    assert (joined.generation, joined.leader, joined.skip_assignment) == (3, "a", False)
    assert group.sync_assignment(joined.member_id, 3) == {"foo": (1,)}
    group.wait(LONG_MS)
    others_hear_nothing(group, "a", "c")
    assert group.beat(joined.member_id, 3).error == ErrorCode.NONE
    group.check_replay()


def test_a_member_that_has_to_rejoin_leaves_no_slot(make_group: MakeGroup) -> None:
    """Its replacement would not know that foo-2 waits for it."""
    group = make_group(config=CONFIG)
    revoking = subscription(("foo",), owned={"foo": (1, 2)})
    group.given_classic_group(
        given_classic_group_member("a", {"foo": (0,)}, protocol=STICKY),
        given_classic_group_member("b", {"foo": (1,)}, protocol=STICKY, metadata=revoking),
        given_classic_group_member("c", {}, protocol=STICKY),
        generation=3,
    )
    group.leave("b")
    assert not group.engine.state.member_slots
    assert group.beat("c", 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_native_replacement_converts_the_group_and_disturbs_nobody(group: GroupScript) -> None:
    """The first step of a migration. The slot stays while the group is converted."""
    group.leave("a")
    group.wait(1_000)
    reply = group.native("n1")
    assert reply.member_epoch == group.consumer.epoch == 3
    assert group.granted_partitions("n1") == {"foo": (0,)}
    others_hear_nothing(group)
    assert not group.engine.state.member_slots
    group.check_replay()


def test_another_native_joiner_ends_the_slot(group: GroupScript) -> None:
    """Its target is for those who are there."""
    group.leave("a")
    group.native("n1", topics=("bar", "foo"))
    group.wait(LONG_MS)
    targets = {id_: len(target) for id_, target in group.consumer.targets.items()}
    assert targets == {"n1": 1, "b": 1, "c": 1}


def test_a_slot_survives_the_conversion_by_another_member(group: GroupScript) -> None:
    """Two members are restarted. The second one finds its slot in a consumer group."""
    group.leave("a")
    group.leave("b")
    group.native("n1")
    group.native("n2")
    assert [group.granted_partitions(id_) for id_ in ("n1", "n2")] == [{"foo": (0,)}, {"foo": (1,)}]
    others_hear_nothing(group, "c")
    assert group.consumer.epoch == 3


@pytest.mark.parametrize("version", [8, 9])
def test_the_replacement_of_the_leader_leads(group: GroupScript, version: int) -> None:
    """A static leader that restarts leads again, too. An older client must not assign again."""
    group.leave("a")
    others_hear_nothing(group)
    joined = group.join(group.take_id(version=version), version=version)
    assert group.classic.core.leader == joined.member_id
    assert joined.leader == (joined.member_id if version == 9 else "a")
    assert joined.skip_assignment is (version == 9)
    assert group.sync_assignment(joined.member_id, 3) == {"foo": (0,)}
    others_hear_nothing(group)


def test_a_topic_that_grew_meanwhile_makes_the_group_rebalance(group: GroupScript) -> None:
    """DEV D11: the leader was away, so nobody else has noticed."""
    for member_id in ("a", "b", "c"):
        group.send_join(member_id, topics=("foo", "bar"))
    group.sync("a", 4, assignments={"a": {"foo": (0,)}})
    group.sync("b", 4)
    group.sync("c", 4)
    group.leave("a")
    group.topics = make_topics(2, foo=4)
    token = group.send_join(group.take_id(), topics=("foo", "bar"))
    assert group.is_parked(token)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_a_member_that_stays_away_costs_a_long_grace(group: GroupScript) -> None:
    """A rebalance stops the whole group, so it waits longer for the replacement."""
    group.leave("b")
    group.wait(LONG_MS - 1)
    others_hear_nothing(group, "a", "c")
    group.wait(1)
    assert group.beat("a", 3).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert not group.engine.state.member_slots


def _another_joins(group: GroupScript) -> None:
    group.send_join(group.take_id(client_id="other"), client_id="other")


def _two_leave(group: GroupScript) -> None:
    group.leave("a", "c")


def _the_leader_rejoins(group: GroupScript) -> None:
    group.send_join("a")


@pytest.mark.parametrize("change", [_another_joins, _two_leave, _the_leader_rejoins])
def test_any_rebalance_ends_the_slots(
    group: GroupScript, change: Callable[[GroupScript], None]
) -> None:
    """Who comes back then joins as new."""
    group.leave("b")
    change(group)
    assert group.classic.phase is not ClassicPhase.STABLE
    assert not group.engine.state.member_slots
    assert group.left_ms(DeadlineKind.GRACE, "b") is None


def test_another_client_takes_no_slot(group: GroupScript) -> None:
    group.leave("b")
    token = group.send_join(group.take_id(client_id="other"), client_id="other")
    assert group.is_parked(token)


def test_a_static_joiner_takes_no_slot_of_a_dynamic_member(group: GroupScript) -> None:
    group.leave("b")
    assert group.is_parked(group.send_join(instance_id="i9"))


def test_a_replacement_waits_for_a_commit_in_flight(group: GroupScript) -> None:
    """DEV D34: it may be that of its predecessor, so the group rebalances after it."""
    group.commit("b", 3, {"foo": (1,)})
    group.leave("b")
    token = group.send_join(group.take_id())
    assert group.is_parked(token)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_in_a_rebalance_nobody_is_spared(group: GroupScript) -> None:
    group.send_join("a")
    group.leave("b")
    assert not group.engine.state.member_slots


def test_a_static_member_leaves_no_slot(make_group: MakeGroup) -> None:
    """A static member has its slot by its instance id if it does not leave."""
    group = make_group(config=CONFIG)
    group.given_classic_group(
        given_classic_group_member("a", {"foo": (0,)}, instance_id="i1"),
        given_classic_group_member("b", {"foo": (1,)}),
    )
    group.leave(("a", "i1"))
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_the_last_member_leaves_no_slot(group: GroupScript) -> None:
    """The group is empty immediately, and earlier slots end."""
    for member_id in ("a", "b", "c"):
        group.leave(member_id)
    assert group.view().state == "Empty"
    assert not group.engine.state.deadlines


def test_a_group_of_another_protocol_type_keeps_no_slots(make_group: MakeGroup) -> None:
    """Its members' assignments are none of ours to pass on: Kafka Connect waits in its own way."""
    group = make_group(config=CONFIG)
    group.given_classic_group(
        given_classic_group_member("a"), given_classic_group_member("b"), protocol_type="connect"
    )
    group.leave("b")
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_places_are_limited(group: GroupScript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_slots, "SLOTS_MAX", 1)
    group.leave("b")
    group.leave("c")
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_a_restart_ends_the_grace(group: GroupScript) -> None:
    """The log has the removal, so the group rebalances immediately."""
    group.leave("b")
    group.restart()
    assert isinstance(group.engine.state.group, ClassicGroup)
    assert "b" not in group.classic.members
    assert group.beat("a", 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_restart_ends_a_grace_although_the_group_was_stored_meanwhile(group: GroupScript) -> None:
    """Another member was replaced. Nobody would be told of the first one's partitions."""
    group.leave("b")
    group.leave("c")
    group.join(group.take_id())
    group.restart()
    assert group.beat("a", 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_is_handed_back_takes_no_places_along(group: GroupScript) -> None:
    group.leave("b")
    group.feed(ReleaseBegan())
    assert not group.engine.state.member_slots
    assert group.left_ms(DeadlineKind.GRACE, "b") is None


def test_without_a_grace_a_leave_is_kafkas(make_group: MakeGroup) -> None:
    group = make_group()
    group.given_classic_group(given_classic_group_member("a"), given_classic_group_member("b"))
    group.leave("b")
    dropped = [r for r in group.last_step.records if isinstance(r, ClassicGroupMemberDropped)]
    assert len(dropped) == 1
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
