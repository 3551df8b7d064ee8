"""A finding as a script that replays it."""

from collections.abc import Iterable, Iterator

from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.moves import make, moves_of
from tests.simulation.explorer.search import require_rest
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_world import Move, World


class WrongMoveError(ValueError):
    """The script has a move that the world does not allow at that point."""


def read(text: str) -> tuple[Move, ...]:
    """The moves of a script: one per line; empty lines and comments do not count."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def play(shape: Shape, moves: Iterable[Move]) -> Iterator[tuple[Move, World]]:
    """Play the moves from the beginning of the world, and look for a way to rest from their end.

    Yields each move with the world that it leads to. Raises BrokenPromiseError, or WrongMoveError.
    """
    world = begin(shape)
    check(world)
    for number, move in enumerate(moves, start=1):
        allowed, _is_cut = moves_of(world)
        if move not in allowed:
            raise WrongMoveError(f"move {number}, {move!r}, is none of {', '.join(allowed)}")
        make(world, move)
        check(world)
        yield move, world
    require_rest(world)
