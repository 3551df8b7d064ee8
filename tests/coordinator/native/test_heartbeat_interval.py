"""The heartbeat interval in answers to native members (rule 3.17, DEV D78)."""

from dataclasses import replace

import pytest

from coordinator.group.rolls import ANNOUNCED_ROLL_PAUSE_MS_MAX
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConsumerHeartbeatReceived, Event
from coordinator.interface.replies import ConsumerHeartbeatReply
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

USUAL_MS, SHORT_MS = 5_000, 1_000
ROLL_PAUSE_MS = GroupConfig().roll_pause_ms
CONFIG = GroupConfig(unsettled_heartbeat_interval_ms=SHORT_MS)
FOO = {"foo": (0, 1, 2)}
FOO_0, FOO_1, FOO_2 = ({"foo": (number,)} for number in range(3))


def start_native_group(make_group: MakeGroup, config: GroupConfig = CONFIG) -> GroupScript:
    """A native group at rest."""
    group = make_group(config=config)
    group.given_consumer_group(given_native("n1", assigned=FOO_0), given_native("n2"))
    for member_id in ("n1", "n2"):  # after the load their assignments are repeated once
        owned = FOO_0 if member_id == "n1" else {}
        group.native(member_id, 10, owned=owned)
    return group


def test_members_of_a_settled_group_have_the_usual_interval(make_group: MakeGroup) -> None:
    group = start_native_group(make_group)
    assert group.native("n1", 10).heartbeat_interval_ms == USUAL_MS


def test_all_members_have_the_short_interval_until_the_group_has_settled(
    make_group: MakeGroup,
) -> None:
    """This includes members that have nothing to do yet: they learn of the next change sooner."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(given_native("n1", assigned=FOO), given_native("n2"))
    group.native("n1", 10, owned=FOO)
    assert group.native("n3").heartbeat_interval_ms == SHORT_MS
    assert group.native("n2", 10).heartbeat_interval_ms == SHORT_MS


def test_members_have_the_short_interval_while_a_place_is_kept(make_group: MakeGroup) -> None:
    """The replacement, or the end of the grace, may be a matter of a second."""
    rolled = replace(CONFIG, replacement_grace_ms=3_000, rolled_since_ms=1_000_000)
    group = start_native_group(make_group, rolled)
    group.native("n1", -1)
    assert group.native("n2", 10).heartbeat_interval_ms == SHORT_MS


@pytest.mark.parametrize(("since_ms", "expected_ms"), [(0, SHORT_MS), (ROLL_PAUSE_MS, USUAL_MS)])
def test_a_group_is_being_rolled_for_some_time_after_a_member_changed_its_protocol(
    make_group: MakeGroup, since_ms: int, expected_ms: int
) -> None:
    """A group may stay mixed for ever, and then its members do not hurry."""
    group = make_group(config=CONFIG)
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0),
        given_classic("c1", assigned=FOO_1),
        given_classic("c2"),
        timestamp_ms=group.now_ms,
    )
    assert group.native("n1", 10).heartbeat_interval_ms == USUAL_MS
    group.native("c2")
    for _ in range(since_ms // 10_000):
        group.wait(9_000)
        group.native("n1", 10)
        group.native("c2", 10, owned={})
        group.beat("c1", 10)
        group.wait(1_000)
    assert group.native("n1", 10).heartbeat_interval_ms == expected_ms


@pytest.mark.parametrize(
    ("since_ms", "expected_ms"), [(0, SHORT_MS), (ANNOUNCED_ROLL_PAUSE_MS_MAX, USUAL_MS)]
)
def test_an_announced_roll_needs_no_change(
    make_group: MakeGroup, since_ms: int, expected_ms: int
) -> None:
    """No place has to be taken, either. The roll is over after an hour without a step."""
    group = start_native_group(make_group, replace(CONFIG, rolled_since_ms=1_000_000))
    group.now_ms += since_ms
    assert group.native("n2", 10).heartbeat_interval_ms == expected_ms


@pytest.mark.parametrize(
    ("answered_ms", "expected_ms"),
    [
        (0, SHORT_MS),
        (100, SHORT_MS),
        (101, 1_010),
        (499, 4_990),
        (500, USUAL_MS),
        (9_000, USUAL_MS),
    ],
)
def test_slow_answers_lengthen_the_interval(
    make_group: MakeGroup, answered_ms: int, expected_ms: int
) -> None:
    """librdkafka gives a heartbeat up at the interval that it was told."""
    group = SlowlyAnswered(make_group, answered_ms)
    group.script.native("n3")
    assert group.script.native("n2", 10).heartbeat_interval_ms == expected_ms


class SlowlyAnswered:
    """An unsettled group whose driver measures this time."""

    def __init__(self, make_group: MakeGroup, answered_ms: int) -> None:
        self.script = start_native_group(make_group)
        feed = self.script.feed

        def feed_measured(event: Event) -> object:
            if isinstance(event, ConsumerHeartbeatReceived):
                event = replace(event, answers_within_ms=answered_ms)
            return feed(event)

        self.script.feed = feed_measured  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(("took_ms", "expected_ms"), [(100, SHORT_MS), (101, USUAL_MS)])
def test_a_member_whose_connection_is_slow_is_told_the_usual_interval(
    make_group: MakeGroup, took_ms: int, expected_ms: int
) -> None:
    """Its heartbeats wait behind other calls, and librdkafka gives them up at the interval that it
    was told."""
    group = start_native_group(make_group)
    group.native("n3")
    slow = group.native("n2", 10, calls_within_ms=took_ms)
    assert slow.heartbeat_interval_ms == expected_ms


def test_a_group_with_short_heartbeats_keeps_them(make_group: MakeGroup) -> None:
    """The interval is never longer than the group's."""
    config = replace(CONFIG, consumer_heartbeat_interval_ms=500)
    group = start_native_group(make_group, config)
    reply: ConsumerHeartbeatReply = group.native("n3")
    assert reply.heartbeat_interval_ms == 500


def test_by_default_the_interval_is_kafkas(make_group: MakeGroup) -> None:
    group = start_native_group(make_group, GroupConfig())
    assert group.native("n3").heartbeat_interval_ms == USUAL_MS
