"""The legal transitions of an anchor, every pair of them."""

import itertools

import pytest

from gateway.anchor.phases import MOVES, Phase, check_move


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Phase, Phase)))
def test_every_pair_has_a_result(before: Phase, after: Phase) -> None:
    """A transition that is not in the table is an internal error."""
    if after in MOVES[before]:
        check_move(before, after)
    else:
        with pytest.raises(ValueError, match=f"from {before.value} to {after.value}"):
            check_move(before, after)


def test_only_a_completed_generation_makes_an_anchor_stable() -> None:
    """A lost anchor starts over."""
    assert [phase for phase in Phase if Phase.STABLE in MOVES[phase]] == [Phase.SYNCING]
    assert [phase for phase in Phase if Phase.SYNCING in MOVES[phase]] == [Phase.JOINING]
    assert Phase.STABLE not in MOVES[Phase.LOST]
