"""The balance of new targets, and whom they disturb."""

from dataclasses import replace

import pytest

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import TimePassed
from coordinator.interface.records import (
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.watch_targets import TargetWatch
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, make_topics, partitions

CONFIG = GroupConfig(unaffected_members_rejoin=False, eager_imbalance_percent=50)
COMPUTED = TargetAssignmentMetadata(epoch=11, timestamp_ms=1, assignor="uniform")


@pytest.fixture
def group() -> GroupScript:
    """An eager member and a native one with four partitions each, and a native one without."""
    made = GroupScript(config=CONFIG, topics=make_topics(foo=8))
    made.given_consumer_group(
        given_classic("c1", assigned={"foo": range(4)}),
        given_native("n1", assigned={"foo": range(4, 8)}),
        given_native("n2"),
    )
    return made


def computed(
    group: GroupScript, config: GroupConfig = CONFIG, assignor: str = "uniform", **targets: range
) -> None:
    """The group gets these targets."""
    watch, state = TargetWatch(), group.engine.state
    watch.after_load(state)
    records = [
        TargetAssignmentMember(member_id=id_, partitions=partitions({"foo": numbers}))
        for id_, numbers in targets.items()
    ]
    assert isinstance(state.group, ConsumerGroup)
    for record in records:
        state.group.apply(record)
    step = Step(records=(*records, replace(COMPUTED, assignor=assignor)))
    watch.after_step(state, TimePassed(), step, config, group.topics)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_balanced_target_that_spares_whom_it_can(group: GroupScript, assignor: str) -> None:
    computed(group, assignor=assignor, n1=range(4, 6), n2=range(6, 8))


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_member_that_is_disturbed_without_need_is_found(
    group: GroupScript, assignor: str
) -> None:
    with pytest.raises(BrokenInvariantError, match="could have kept") as broken:
        computed(group, assignor=assignor, c1=range(3), n1=range(5, 8), n2=range(3, 5))
    assert broken.value.invariant is Invariant.BALANCED


def test_a_target_beyond_the_bounds_is_found(group: GroupScript) -> None:
    """Half a share is one partition here."""
    with pytest.raises(BrokenInvariantError, match="not in") as broken:
        computed(group, n1=range(4, 8))
    assert broken.value.invariant is Invariant.BALANCED
    with pytest.raises(BrokenInvariantError, match="not in"):
        computed(group, replace(CONFIG, eager_imbalance_percent=0), n1=range(4, 7), n2=range(7, 8))


def test_a_target_is_not_compared_with_the_members_after_it(group: GroupScript) -> None:
    """A deadline computes it, and the next one in the same step removes a member."""
    watch, state = TargetWatch(), group.engine.state
    watch.after_load(state)
    gone = MemberMetadata(member_id="n2", value=None, cause=RemovalCause.SESSION_EXPIRED)
    step = Step(records=(COMPUTED, gone))
    watch.after_step(state, TimePassed(), step, CONFIG, group.topics)
    with pytest.raises(BrokenInvariantError):
        watch.after_step(state, TimePassed(), Step(records=(COMPUTED,)), CONFIG, group.topics)


def test_a_target_is_not_compared_with_the_members_before_the_return_of_a_loan(
    group: GroupScript,
) -> None:
    """A replacement that subscribes to something else gets the loan back and begins another target
    in the same step. The borrower has exactly its target then, and either of two eager members may
    be disturbed (seed 150540)."""
    watch, state = TargetWatch(), group.engine.state
    watch.after_load(state)
    assert isinstance(state.group, ConsumerGroup)
    records = [
        TargetAssignmentMember(member_id=id_, partitions=partitions({"foo": numbers}))
        for id_, numbers in {"c1": range(3), "n1": range(5, 8), "n2": range(3, 5)}.items()
    ]
    for record in records:
        state.group.apply(record)
    step = Step(records=(COMPUTED, *records, replace(COMPUTED, epoch=12)))
    watch.after_step(state, TimePassed(), step, CONFIG, group.topics)


def test_where_every_member_rejoins_anyway_nobody_is_spared(group: GroupScript) -> None:
    config = replace(CONFIG, unaffected_members_rejoin=True)
    computed(group, config, c1=range(3), n1=range(5, 8), n2=range(3, 5))
