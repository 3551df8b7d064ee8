"""What can happen in a world of adoption."""

import pytest

from tests.simulation.explorer.adoption_moves import check, free_moves, paid_moves
from tests.simulation.explorer.adoption_world import AdoptionWorld
from tests.simulation.explorer.beginning import begin_forwarded
from tests.simulation.explorer.moves import BUDGETS, moves_of, price
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.worlds import WORLDS


@pytest.fixture
def world() -> AdoptionWorld:
    return begin_forwarded(WORLDS["adopt"])


def test_at_rest_only_time_passes(world: AdoptionWorld) -> None:
    assert free_moves(world) == ["wait"]


def test_every_move_that_is_not_free_has_a_budget(world: AdoptionWorld) -> None:
    world.play("adopt")
    assert {price(move) for move in paid_moves(world)} <= set(BUDGETS)
    assert all(price(move) for move in paid_moves(world))


def test_a_group_is_adopted_once_at_a_time(world: AdoptionWorld) -> None:
    assert "adopt" in moves_of(world)[0]
    world.budgets["adopt"] = 2
    world.play("adopt")
    assert "adopt" not in moves_of(world)[0]


def test_requests_to_the_coordinator_may_fail_in_three_ways(world: AdoptionWorld) -> None:
    for move in ("adopt", *2 * ["answer Describe"], "answer Store", "answer Hold"):
        world.play(move)
    faults = {move for move in paid_moves(world) if move.endswith(" others")}
    assert faults == {"fail others", "fail-answer others", "late others"}


def test_a_lost_commit_breaks_the_promise(world: AdoptionWorld) -> None:
    check(world)
    world.acknowledged[0] = world.upstream.offsets[0] + 1
    with pytest.raises(BrokenPromiseError, match="1 records of 0 are lost"):
        check(world)
