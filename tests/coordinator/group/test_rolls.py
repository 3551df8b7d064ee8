"""Whether the members of a group are being restarted to change their protocol."""

from dataclasses import replace

import pytest

from coordinator.group.rolls import ANNOUNCED_ROLL_PAUSE_MS_MAX, is_rolled
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.volatile_records import MemberReturned, ProtocolChanged
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

CONFIG = GroupConfig(replacement_grace_ms=3_000, unaffected_members_rejoin=False)
NOW_MS = 10_000_000
FOO_0, FOO_1, FOO_2 = {"foo": (0,)}, {"foo": (1,)}, {"foo": (2,)}


def is_rolled_by(group: GroupScript) -> bool:
    return is_rolled(group.engine.state, group.config, group.now_ms)


@pytest.fixture
def mixed_group(make_group: MakeGroup) -> GroupScript:
    """A group that has been mixed for long."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0),
        given_classic("c1", assigned=FOO_1),
        given_classic("c2", assigned=FOO_2),
    )
    return group


def test_a_group_that_merely_is_mixed_is_not_rolled(mixed_group: GroupScript) -> None:
    """A member that leaves is gone immediately, and the others get its partitions, as in Kafka."""
    assert not is_rolled_by(mixed_group)
    mixed_group.native("n2")
    assert not is_rolled_by(mixed_group)
    mixed_group.wait(1_000)
    mixed_group.native("n2", mixed_group.current("n2").member_epoch)
    mixed_group.leave("c2")
    assert not mixed_group.engine.state.member_slots
    assert mixed_group.consumer.epoch > mixed_group.consumer.assignment_epoch


def test_a_member_that_comes_back_with_the_other_protocol_begins_a_roll(
    mixed_group: GroupScript,
) -> None:
    """The first step costs what it costs in Kafka."""
    mixed_group.leave("c2")
    mixed_group.native("n2")
    assert is_rolled_by(mixed_group)


def test_a_slot_is_kept_from_the_second_step_of_a_roll_on(make_group: MakeGroup) -> None:
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0),
        given_classic("c1", assigned=FOO_1),
        given_classic("c2", assigned=FOO_2),
    )
    group.native("c2", owned={})
    group.leave("c1")
    assert group.engine.state.member_slots.keys() == {"c1"}


def test_a_member_that_restarts_with_its_protocol_begins_no_roll(mixed_group: GroupScript) -> None:
    """An ordinary restart costs what it costs in Kafka."""
    mixed_group.native("n0")
    mixed_group.native("n1", -1)
    mixed_group.native("n2")
    assert not is_rolled_by(mixed_group)


def test_a_conversion_begins_a_roll(group: GroupScript) -> None:
    group.stable_classic_group({"a": FOO_0, "b": FOO_1})
    assert not is_rolled_by(group)
    group.native("n1")
    assert is_rolled_by(group)


def test_the_first_classic_member_of_a_native_group_begins_a_roll(group: GroupScript) -> None:
    group.native("n1")
    group.native("n2")
    assert not is_rolled_by(group)
    group.join(group.take_id())
    assert is_rolled_by(group)


@pytest.mark.parametrize("instance_id", [None, "i1"])
def test_a_member_that_turns_native_in_slot_begins_a_roll(
    make_group: MakeGroup, instance_id: str | None
) -> None:
    """A dynamic one under its own id, a static one under another."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0),
        given_classic("c1", assigned=FOO_1, instance_id=instance_id),
    )
    group.native("c1" if instance_id is None else "n2", instance_id=instance_id)
    assert is_rolled_by(group)


def test_a_roll_ends_some_time_after_its_last_change() -> None:
    state = GroupState("orders")
    state.apply(ProtocolChanged(NOW_MS))
    config = GroupConfig(roll_pause_ms=1_000)
    assert is_rolled(state, config, NOW_MS + 999)
    assert not is_rolled(state, config, NOW_MS + 1_000)


def test_a_step_prolongs_an_announced_roll() -> None:
    """A replacement is one, even with the same protocol."""
    state = GroupState("orders")
    config = GroupConfig(rolled_since_ms=NOW_MS)
    last_ms = NOW_MS + ANNOUNCED_ROLL_PAUSE_MS_MAX - 1
    assert is_rolled(state, config, last_ms)
    assert not is_rolled(state, config, last_ms + 1)
    state.apply(MemberReturned(at_ms=last_ms, away_ms=1))
    assert is_rolled(state, config, last_ms + ANNOUNCED_ROLL_PAUSE_MS_MAX - 1)


def test_a_classic_group_rebalances_immediately_outside_a_roll(make_group: MakeGroup) -> None:
    """A consumer that is removed or stuck leaves no idle partitions behind."""
    group = make_group(config=CONFIG)
    ids = group.stable_classic_group({"a": FOO_0, "b": FOO_1})
    group.leave(ids["a"])
    assert group.view().state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("reason", "is_kept"),
    [
        (None, True),
        ("the consumer is being closed", True),
        ("consumer poll timeout has expired.", False),
        ("the consumer unsubscribed from all topics", False),
    ],
)
@pytest.mark.parametrize("is_mixed", [True, False])
def test_no_slot_is_kept_for_a_client_that_says_that_its_process_continues(
    make_group: MakeGroup, is_mixed: bool, reason: str | None, is_kept: bool
) -> None:
    """A stuck consumer comes back when it likes, and its partitions need not wait for it."""
    group = make_group(config=replace(CONFIG, rolled_since_ms=1_000_000))
    ids = group.stable_classic_group({"a": FOO_0, "b": FOO_1})
    if is_mixed:
        group.native("n1", owned={})
        group.wait(1_000)
        group.native("n1", group.current("n1").member_epoch)
    group.leave(ids["a"], reason=reason)
    assert bool(group.engine.state.member_slots) is is_kept
