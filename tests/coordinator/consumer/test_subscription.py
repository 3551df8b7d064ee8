"""Changes of a member's description that bump the group epoch (rule 3.5)."""

import pytest

from coordinator.interface.records import EpochCause, GroupEpoch
from coordinator.interface.volatile_records import TopicsChecked
from tests.support.group_records import given_native
from tests.support.group_script import GroupScript, make_topics

ALL = {"foo": (0, 1, 2)}


def causes(group: GroupScript) -> list[EpochCause]:
    return [r.cause for r in group.last_step.durable if isinstance(r, GroupEpoch)]


@pytest.mark.parametrize(
    ("topics", "cause"),
    [
        (("foo", "bar"), [EpochCause.SUBSCRIPTION_CHANGED]),
        ((), [EpochCause.SUBSCRIPTION_CHANGED]),
        (("foo",), []),
        (("foo", "foo"), []),
        (None, []),
    ],
)
def test_other_names_bump(
    group: GroupScript, topics: tuple[str, ...] | None, cause: list[EpochCause]
) -> None:
    """Only the set of names counts, even if it becomes empty."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    group.native("n1", 10, topics=topics)
    assert causes(group) == cause


@pytest.mark.parametrize(("topics", "cause"), [(("foo",), [EpochCause.MEMBER_JOINED]), ((), [])])
def test_a_new_member_with_a_subscription_bumps(
    group: GroupScript, topics: tuple[str, ...], cause: list[EpochCause]
) -> None:
    """A member without subscription changes no assignment."""
    assert group.native("n1", topics=topics).member_epoch == 1 + len(cause)
    group.given_consumer_group(given_native("n1", assigned=ALL))
    assert group.native("n2", topics=topics).member_epoch == 10 + len(cause)
    assert causes(group) == cause


def test_a_change_that_affects_no_assignment_bumps_no_epoch(group: GroupScript) -> None:
    """A new timeout is only written, and so is a preference for the current assignor."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    group.native("n1", 10, assignor="uniform", rebalance_timeout_ms=1)
    assert group.consumer.members["n1"].server_assignor == "uniform"
    assert causes(group) == []


def test_another_assignor_bumps(group: GroupScript) -> None:
    """DEV D66: the epoch is bumped if another assignor now has most votes."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 2)}), given_native("n2", assigned={"foo": (1,)})
    )
    group.native("n1", 10, assignor="range")
    assert causes(group) == [EpochCause.ASSIGNOR_CHANGED]
    assert group.consumer.assignor == "range"
    assert group.names_of(group.consumer.target_of("n1")) == {"foo": (0, 1)}
    group.native("n2", 10, assignor="uniform")
    assert causes(group) == []


def test_another_rack_bumps(group: GroupScript) -> None:
    """DEV D66. The same rack, or a heartbeat without rack, does not bump."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    group.native("n1", 10, rack_id="a")
    assert causes(group) == [EpochCause.RACK_CHANGED]
    for rack_id in ("a", None):
        group.native("n1", 11, rack_id=rack_id)
        assert causes(group) == []


def test_a_topic_that_grew_bumps(group: GroupScript) -> None:
    """The epoch is bumped once, because the hash is compared only when the image changes."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    group.native("n1", 10)
    assert TopicsChecked(group.topics.version) in group.last_step.records
    group.native("n1", 10)
    assert not [r for r in group.last_step.records if isinstance(r, TopicsChecked)]
    group.topics = make_topics(version=2, foo=4)
    reply = group.native("n1", 10)
    assert causes(group) == [EpochCause.TOPICS_CHANGED]
    assert reply.member_epoch == 11
    assert group.names_of(reply.assignment) == {"foo": (0, 1, 2, 3)}
    group.topics = make_topics(version=3, foo=4, other=1)
    group.native("n1", 11)
    assert causes(group) == []
