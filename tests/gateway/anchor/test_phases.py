"""The table of an anchor's legal moves, every pair of it."""

import itertools

import pytest

from gateway.anchor.phases import MOVES, Phase, check_move


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Phase, Phase)))
def test_every_pair_is_decided(before: Phase, after: Phase) -> None:
    """What is not in the table is a bug of ours, and is said so."""
    if after in MOVES[before]:
        check_move(before, after)
    else:
        with pytest.raises(ValueError, match=f"from {before.value} to {after.value}"):
            check_move(before, after)


def test_only_a_completed_generation_makes_an_anchor_stable() -> None:
    """There is no other way to it, and a lost one begins anew."""
    assert [phase for phase in Phase if Phase.STABLE in MOVES[phase]] == [Phase.SYNCING]
    assert [phase for phase in Phase if Phase.SYNCING in MOVES[phase]] == [Phase.JOINING]
    assert Phase.STABLE not in MOVES[Phase.LOST]
