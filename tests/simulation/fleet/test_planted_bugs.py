"""The world of two owners finds every planted bug, and nothing without one."""

import pytest

from tests.simulation.broker_profiles import PROFILES
from tests.simulation.fleet.owners import play
from tests.simulation.fleet.planted_bugs import BUGS, Bug

SEEDS_MAX = 12

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", range(SEEDS_MAX))
def test_no_former_owner_answers_for_what_the_next_one_has_decided(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """This holds whichever gateway is paused, cut off, late, fenced or killed. Afterwards each
    member is answered again. Members are confirmed and removed meanwhile."""
    world = play(monkeypatch, seed, PROFILES[seed % len(PROFILES)])
    assert world.confirmed > 1_000
    assert world.removals > 0


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Within the seeds that pass without it."""
    bug.plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            play(monkeypatch, seed)
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} seeds without a violation: {bug.plant.__doc__}")
