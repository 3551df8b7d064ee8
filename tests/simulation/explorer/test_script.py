"""A finding can be replayed."""

import pytest

from tests.simulation.explorer import script
from tests.simulation.explorer.worlds import WORLDS


def test_a_script_plays_its_moves() -> None:
    moves = script.read("switch a  # the classic one\n\nsend a\n")
    assert moves == ("switch a", "send a")
    played = [move for move, _world in script.play(WORLDS["switch"], moves)]
    assert played == ["switch a", "send a"]


def test_a_move_that_the_world_does_not_allow_is_named() -> None:
    with pytest.raises(script.WrongMoveError, match=r"move 2, 'switch b', is none of send a, "):
        list(script.play(WORLDS["switch"], ("switch a", "switch b")))
