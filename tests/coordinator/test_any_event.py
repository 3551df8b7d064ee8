"""Whatever a client sends, `handle` answers: no exception leaves it, no rule of ours breaks."""

import pytest

from tests.support.stranger import Stranger

STEPS = 120


@pytest.mark.parametrize("seed", range(60))
def test_no_event_breaks_the_engine(seed: int) -> None:
    """InvariantError, KeyError and their kind never come out of `handle`, nor out of a view."""
    stranger = Stranger(seed)
    for _ in range(STEPS):
        stranger.step()
    stranger.script.check_replay()
