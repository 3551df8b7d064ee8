"""What is remembered of replacements, and how long one is awaited (rule 3.16)."""

import pytest

from coordinator.group.places import (
    GRACES_BEFORE_ALL_REJOIN,
    ROLL_PAUSE_MS_MAX,
    grace_ms,
    is_rolled,
    last_away_ms,
)
from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import MemberReturned

NOW_MS = 1_000_000
GRACE_MS = 3_000
LONG_MS = GRACES_BEFORE_ALL_REJOIN * GRACE_MS


def state_after(away_ms: int, *, ago_ms: int = 0) -> GroupState:
    """A group one of whose members has been replaced."""
    state = GroupState("orders")
    state.apply(MemberReturned(at_ms=NOW_MS - ago_ms, away_ms=away_ms))
    return state


def graces(state: GroupState) -> tuple[int, int]:
    """How long a member is awaited, and one whose leave would make all rejoin."""
    config = GroupConfig(replacement_grace_ms=GRACE_MS)
    step = StepBuilder(state, config=config, topics=Topics(), now_ms=NOW_MS)
    return grace_ms(step, all_rejoin=False), grace_ms(step, all_rejoin=True)


def test_a_member_is_awaited_for_longer_where_all_others_would_have_to_rejoin() -> None:
    assert graces(GroupState("orders")) == (GRACE_MS, LONG_MS)


@pytest.mark.parametrize(
    ("away_ms", "expected"),
    [
        (GRACE_MS, (GRACE_MS, LONG_MS)),
        (GRACE_MS + 1, (0, LONG_MS)),
        (LONG_MS, (0, LONG_MS)),
        (LONG_MS + 1, (0, 0)),
    ],
)
def test_a_replacement_that_is_expected_after_the_grace_is_not_awaited(
    away_ms: int, expected: tuple[int, int]
) -> None:
    """It would only make the partitions wait, too."""
    assert graces(state_after(away_ms)) == expected


def test_a_return_is_forgotten_when_the_roll_is_over() -> None:
    before, after = (state_after(5_000, ago_ms=ROLL_PAUSE_MS_MAX - rest) for rest in (1, 0))
    assert (last_away_ms(before, NOW_MS), last_away_ms(after, NOW_MS)) == (5_000, None)
    assert (is_rolled(before, NOW_MS), is_rolled(after, NOW_MS)) == (True, False)
    assert graces(after) == (GRACE_MS, LONG_MS)
