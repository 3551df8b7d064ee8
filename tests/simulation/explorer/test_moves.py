"""What can happen next."""

from dataclasses import replace

from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.moves import free_moves, make, moves_of, paid_moves
from tests.simulation.explorer.prices import BUDGETS, price
from tests.simulation.explorer.worlds import WORLDS


def test_a_world_at_rest_only_waits_unless_somebody_decides_something() -> None:
    world = begin(replace(WORLDS["switch"], budgets={}))
    while free_moves(world) != ["wait"]:
        make(world, free_moves(world)[0])
    assert moves_of(world) == (["wait"], False)


def test_a_move_uses_up_its_budget_and_what_it_cuts_is_told() -> None:
    world = begin(WORLDS["switch"])
    moves, is_cut = moves_of(world)
    assert {"switch a", "switch b"} <= set(moves)
    assert not is_cut
    make(world, "switch a")
    moves, is_cut = moves_of(world)
    assert not any(move.startswith("switch") for move in moves)
    assert is_cut


def test_time_waits_for_everyone_who_has_to_act() -> None:
    world = begin(WORLDS["switch"])
    make(world, "switch a")
    assert "wait" not in free_moves(world)


def test_requests_to_the_coordinator_may_fail_in_several_ways() -> None:
    world = begin(WORLDS["adopt"])
    make(world, "adopt")
    while "others" not in world.pending:
        make(world, free_moves(world)[0])
    faults = {move for move in paid_moves(world) if move.endswith(" others")}
    assert faults == {"fail others", "fail-answer others", "late others", "delay others"}
    assert "restart sent" in set(paid_moves(world))
    assert all(price(move) in BUDGETS for move in paid_moves(world))
