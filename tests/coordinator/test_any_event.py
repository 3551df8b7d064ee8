"""`handle` answers every request, without exceptions or broken invariants."""

import pytest

from tests.support.hypothesis_profile import thinned_out
from tests.support.random_requests import RandomRequests

STEPS = 120


@pytest.mark.parametrize("seed", thinned_out(range(60), 20))
def test_no_event_breaks_the_engine(seed: int) -> None:
    """Neither `handle` nor a view raises InvariantError, KeyError or the like."""
    requests = RandomRequests(seed)
    for _ in range(STEPS):
        requests.step()
    requests.script.check_replay()
