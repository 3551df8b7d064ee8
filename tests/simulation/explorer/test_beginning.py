"""The first state of a world."""

import pytest

from tests.simulation.explorer import beginning
from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.worlds import WORLDS


def test_a_world_begins_at_rest_or_with_consumers_that_have_not_started() -> None:
    assert begin(WORLDS["switch"]).is_at_rest()
    assert [*begin(WORLDS["eager"]).consumers.values()] == [None, None]


def test_a_world_keeps_its_budgets_for_what_follows() -> None:
    for shape in WORLDS.values():
        assert begin(shape).budgets == shape.budgets


def test_consumers_that_do_not_come_to_rest_break_a_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beginning, "QUIET_MOVES_MAX", 3)
    with pytest.raises(BrokenPromiseError, match="do not come to rest"):
        begin(WORLDS["switch"])
