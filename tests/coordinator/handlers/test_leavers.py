"""The slot of a member whose client keeps its connection ends (rule 3.16)."""

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import LeaverStayed
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_native
from tests.support.group_script import GroupScript

CONFIG = GroupConfig(
    replacement_grace_ms=3_000,
    temporary_assignment_ms=10_000,
    rolled_since_ms=1_000_000,
    unaffected_members_rejoin=False,
)
FOO_0, FOO_1 = {"foo": (0,)}, {"foo": (1,)}


def native_group(make_group: MakeGroup) -> GroupScript:
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0), given_native("n2", assigned=FOO_1)
    )
    group.native("n2", 10)
    group.native("n1", -1)
    assert group.engine.state.member_slots
    return group


def test_a_stuck_native_member_is_not_waited_for(make_group: MakeGroup) -> None:
    group = native_group(make_group)
    group.feed(LeaverStayed("n1"))
    assert not group.engine.state.member_slots
    assert group.consumer.epoch > group.consumer.assignment_epoch


def test_a_stuck_classic_member_is_not_waited_for(make_group: MakeGroup) -> None:
    group = make_group(config=CONFIG)
    ids = group.stable_classic_group({"a": FOO_0, "b": FOO_1})
    group.leave(ids["a"])
    assert group.view().state == "Stable"
    group.feed(LeaverStayed(ids["a"]))
    assert group.view().state == "PreparingRebalance"


def test_a_slot_that_was_taken_or_lent_stays_as_it_is(make_group: MakeGroup) -> None:
    """The replacement is there, or another member has the partitions already."""
    group = native_group(make_group)
    group.native("n3")
    group.feed(LeaverStayed("n1"))
    assert group.last_step.records == ()
    reassigned = native_group(make_group)
    reassigned.wait(3_000)
    assert reassigned.engine.state.member_slots["n1"].reassigned
    reassigned.feed(LeaverStayed("n1"))
    assert reassigned.last_step.records == ()
