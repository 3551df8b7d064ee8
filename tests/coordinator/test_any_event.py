"""`handle` answers every request, without exceptions or broken invariants."""

import pytest

from tests.support.stranger import Stranger

STEPS = 120


@pytest.mark.parametrize("seed", range(60))
def test_no_event_breaks_the_engine(seed: int) -> None:
    """Neither `handle` nor a view raises InvariantError, KeyError or the like."""
    stranger = Stranger(seed)
    for _ in range(STEPS):
        stranger.step()
    stranger.script.check_replay()
