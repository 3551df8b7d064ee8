"""When the target is computed, by which assignor, and what of it is written (spec 3.6)."""

from coordinator.config import GroupConfig
from coordinator.consumer.target import preferred_assignor
from coordinator.records import TargetAssignmentMember, TargetAssignmentMetadata
from coordinator.volatile import DeadlineKind
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

ALL = {"foo": (0, 1, 2)}


def test_at_most_once_per_interval(group: GroupScript) -> None:
    """Until then the old target is in force, and the group sits in Assigning."""
    group.native("n1")
    reply = group.native("n2")
    assert (reply.member_epoch, reply.assignment) == (2, frozenset())
    assert group.view().state == "Assigning"
    group.wait(999)
    assert group.native("n2", 2).member_epoch == 2
    group.wait(1)
    assert group.native("n2", 2).member_epoch == 3
    assert group.consumer.target_timestamp_ms == group.now_ms


def test_a_target_without_timestamp_delays_nothing(group: GroupScript) -> None:
    """As after a conversion."""
    group.given_consumer_group(given_native("n1", assigned=ALL), timestamp_ms=0)
    assert group.native("n2").member_epoch == 11


def test_only_what_changed_is_written(make_group: MakeGroup) -> None:
    """A member without topics has nothing, before and after."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}),
        given_native("n2", assigned={"foo": (2,)}),
    )
    group.native("n3", topics=("missing",))
    written = [r for r in group.last_step.durable if isinstance(r, TargetAssignmentMember)]
    assert written == []
    targets = [r for r in group.last_step.durable if isinstance(r, TargetAssignmentMetadata)]
    assert [(r.epoch, r.assignor) for r in targets] == [(11, "uniform")]


def test_most_members_choose_the_assignor(group: GroupScript) -> None:
    """Members without a wish do not vote; without any wish it is the first configured one."""
    config = GroupConfig(consumer_assignors=("range", "uniform"))
    group.native("n1")
    assert preferred_assignor(group.consumer, config) == "range"
    group.native("n2", assignor="uniform")
    assert preferred_assignor(group.consumer, config) == "uniform"
    group.native("n3", assignor="range")
    group.native("n4", assignor="range")
    assert preferred_assignor(group.consumer, group.config) == "range"
    group.wait(1_000)
    group.native("n4", 2)
    assert group.consumer.assignor == "range"


def test_a_group_of_classic_members_computes_its_target_itself(group: GroupScript) -> None:
    """DEV 11.2 row 6: after the interval, as long as no native member is there to do it."""
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": (0,)}),
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


def test_an_empty_group_computes_no_target(group: GroupScript) -> None:
    """As in Kafka 4.3, where its assignment epoch stays behind until somebody joins."""
    group.native("n1")
    group.native("n1", -1)
    group.wait(1_000)
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (3, 2)
    assert group.native("n2").member_epoch == 4
