"""Random actions."""

import pytest

from gateway.simulation.plan import CHAOS_MS
from gateway.simulation.run import Run


@pytest.mark.simulation
def test_every_action_happens_within_a_few_seeds() -> None:
    """Clients come, go, die and freeze; topics and the gateway change."""
    told: set[str] = set()
    for seed in range(12):
        run = Run(seed)
        run.random_actions.begin()
        run.world.run_until(run.world.now_ms + CHAOS_MS)
        told |= {
            what.split(" ")[0]
            for _at_ms, _who, what in run.world.transcript
            if isinstance(what, str)
        }
    assert {"closes", "dies:", "freezes", "goes", "loses", "subscribes", "crashes"} <= told


def test_stop_ends_all_random_actions() -> None:
    """Nothing happens after the faults stop."""
    run = Run(1)
    run.random_actions.begin()
    run.world.run_until(run.world.now_ms + 5_000)
    run.random_actions.stop()
    before = len(run.clients)
    run.world.run_until(run.world.now_ms + CHAOS_MS)
    assert len(run.clients) <= before
