"""A copy of a world is independent of it, and shares what cannot change."""

from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.canonical import canonical
from tests.simulation.explorer.copies import copy, restore
from tests.simulation.explorer.moves import free_moves, make
from tests.simulation.explorer.worlds import WORLDS


def test_a_copy_goes_on_like_the_original() -> None:
    world = begin(WORLDS["switch"])
    make(world, "switch a")
    twin = restore(copy(world))
    assert canonical(twin) == canonical(world)
    for _ in range(30):
        move = free_moves(world)[0]
        make(world, move)
        make(twin, move)
        assert canonical(twin) == canonical(world)


def test_moves_of_a_copy_leave_the_original_alone() -> None:
    """The copy may be made in the middle of a write, when the machine has a batch with a copy of
    the group."""
    world = begin(WORLDS["switch"])
    make(world, "switch a")
    while "answer Write" not in free_moves(world):
        make(world, free_moves(world)[0])
    saved, before = copy(world), canonical(world)
    make(restore(saved), "answer Write")
    assert canonical(world) == canonical(restore(saved)) == before


def test_a_copy_shares_what_cannot_change() -> None:
    world = begin(WORLDS["switch"])
    twin = restore(copy(world))
    assert all(event is its for event, its in zip(world.log, twin.log, strict=True))
    assert twin.topics is world.topics
    assert twin.port is not world.port
    assert twin.here.state is not world.here.state
