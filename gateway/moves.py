"""States that change along a table of legal moves."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

_State = TypeVar("_State", bound=StrEnum)
Moves = Mapping[_State, frozenset[_State]]
"""The legal next states of each state."""


def check_move(moves: Moves[_State], before: _State, after: _State) -> _State:
    """The state after a legal move. Raises ValueError for any other move, which is a bug."""
    if after not in moves[before]:
        raise ValueError(f"a {type(before).__name__} does not move from {before} to {after}")
    return after
