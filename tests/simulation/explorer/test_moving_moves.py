"""What can happen in a world of moves."""

import pytest

from tests.simulation.explorer.beginning import begin_moving
from tests.simulation.explorer.moves import BUDGETS, moves_of, price
from tests.simulation.explorer.moving_moves import free_moves, paid_moves
from tests.simulation.explorer.moving_world import MovingWorld
from tests.simulation.explorer.worlds import WORLDS


@pytest.fixture
def world() -> MovingWorld:
    return begin_moving(WORLDS["adopt"])


def test_at_rest_only_time_passes() -> None:
    world = begin_moving(WORLDS["release"])
    while set(free_moves(world)) != {"wait"}:
        world.play(free_moves(world)[0])
    assert world.is_at_rest()


def test_every_move_that_is_not_free_has_a_budget(world: MovingWorld) -> None:
    for move in ("adopt", "commit a"):
        assert {price(paid) for paid in paid_moves(world)} <= set(BUDGETS)
        assert all(price(paid) for paid in paid_moves(world))
        world.play(move)


def test_a_group_is_adopted_once_at_a_time(world: MovingWorld) -> None:
    assert "adopt" in moves_of(world)[0]
    world.budgets["adopt"] = 2
    world.play("adopt")
    assert "adopt" not in moves_of(world)[0]


def test_requests_to_the_coordinator_may_fail_in_three_ways(world: MovingWorld) -> None:
    world.play("adopt")
    while "others" not in world.pending:
        world.play(free_moves(world)[0])
    faults = {move for move in paid_moves(world) if move.endswith(" others")}
    assert faults == {"fail others", "fail-answer others", "late others"}
    assert "restart sent" in set(paid_moves(world))


def test_a_kill_may_leave_a_write_behind(world: MovingWorld) -> None:
    world.play("adopt")
    while "Write" not in world.pending:
        world.play(free_moves(world)[0])
    assert {"restart", "restart written"} <= set(paid_moves(world))
