"""The check of a move against its table."""

from enum import StrEnum

import pytest

from gateway.moves import Moves, check_move


class Door(StrEnum):
    OPEN = "Open"
    SHUT = "Shut"


MOVES: Moves[Door] = {Door.OPEN: frozenset({Door.SHUT}), Door.SHUT: frozenset()}


def test_a_legal_move_leads_to_its_state() -> None:
    assert check_move(MOVES, Door.OPEN, Door.SHUT) is Door.SHUT


@pytest.mark.parametrize(
    ("before", "after"), [(Door.OPEN, Door.OPEN), (Door.SHUT, Door.OPEN), (Door.SHUT, Door.SHUT)]
)
def test_any_other_move_is_a_bug(before: Door, after: Door) -> None:
    with pytest.raises(ValueError, match=f"a Door does not move from {before} to {after}"):
        check_move(MOVES, before, after)
