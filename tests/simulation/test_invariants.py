"""Each check of a state can fail, under its own name."""

from collections.abc import Callable

import pytest

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.records import Assignment, EpochCause, GroupEpoch
from coordinator.interface.volatile_records import DeadlineKey, DeadlineKind
from tests.simulation.invariants import BrokenInvariantError, Invariant, check_group
from tests.simulation.stage import Stage


def stable_group() -> tuple[Stage, ConsumerGroup]:
    """Two members with two partitions each."""
    stage = Stage()
    stage.native("n1")
    stage.native("n2")
    stage.wait()
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    check_group(stage.driver.engine.state)
    return stage, group


def hold_twice(stage: Stage, group: ConsumerGroup) -> None:
    everything = dict.fromkeys(stage.foo(0, 1, 2, 3), group.epoch)
    group.assignments.put(
        "n1", Assignment(member_epoch=group.epoch, previous_epoch=group.epoch, assigned=everything)
    )


def target_twice(stage: Stage, group: ConsumerGroup) -> None:
    group.targets.put("n1", frozenset(stage.foo(0, 1, 2, 3)))


def lose_the_index(stage: Stage, group: ConsumerGroup) -> None:
    group.holders.drop(next(iter(stage.foo(0))))


def run_ahead(stage: Stage, group: ConsumerGroup) -> None:
    group.assignment_epoch = group.epoch + 1


def member_runs_ahead(stage: Stage, group: ConsumerGroup) -> None:
    group.assignment_epoch -= 1


def forget_a_timer(stage: Stage, group: ConsumerGroup) -> None:
    stage.driver.engine.state.deadlines.drop(DeadlineKey(DeadlineKind.SESSION, "n1"))


def leave_a_timer(stage: Stage, group: ConsumerGroup) -> None:
    stage.driver.engine.state.deadlines.put(DeadlineKey(DeadlineKind.JOIN, "n1"), 0)


def leave_a_target(stage: Stage, group: ConsumerGroup) -> None:
    group.targets.put("gone", frozenset())


def miscount(stage: Stage, group: ConsumerGroup) -> None:
    group.subscribers.put("foo", 7)


@pytest.mark.parametrize(
    ("damage", "invariant"),
    [
        (hold_twice, Invariant.SINGLE_HOLDER),
        (target_twice, Invariant.SINGLE_HOLDER),
        (lose_the_index, Invariant.INDEXES),
        (run_ahead, Invariant.EPOCHS),
        (member_runs_ahead, Invariant.EPOCHS),
        (leave_a_target, Invariant.INDEXES),
        (miscount, Invariant.INDEXES),
        (forget_a_timer, Invariant.TIMERS),
        (leave_a_timer, Invariant.TIMERS),
    ],
)
def test_a_damaged_state_breaks_its_invariant(
    damage: Callable[[Stage, ConsumerGroup], None], invariant: Invariant
) -> None:
    """The cause of the damage does not matter."""
    stage, group = stable_group()
    damage(stage, group)
    with pytest.raises(BrokenInvariantError) as broken:
        check_group(stage.driver.engine.state)
    assert broken.value.invariant is invariant


def test_a_bumped_epoch_breaks_no_invariant() -> None:
    """The target follows later."""
    stage, group = stable_group()
    group.apply(GroupEpoch(epoch=group.epoch + 1, cause=EpochCause.MEMBER_REMOVED))
    check_group(stage.driver.engine.state)
