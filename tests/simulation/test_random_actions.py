"""Random actions."""

import pytest

from tests.simulation.intruder import INTRUDER
from tests.simulation.plan import CHAOS_MS
from tests.simulation.random_actions import INTRUSION_MS_MAX
from tests.simulation.run import Run
from tests.simulation.stage import Stage


@pytest.mark.simulation
def test_every_action_happens_within_a_few_seeds() -> None:
    """Clients come, go, die and freeze; topics and the gateway change."""
    actions: set[str] = set()
    for seed in range(12):
        run = Run(seed)
        run.random_actions.begin()
        run.world.run_until(run.world.now_ms + CHAOS_MS)
        actions |= {
            what.split(" ")[0]
            for _at_ms, _who, what in run.world.transcript
            if isinstance(what, str)
        }
    assert {"closes", "dies:", "freezes", "goes", "loses", "subscribes", "crashes"} <= actions


def test_stop_ends_all_random_actions() -> None:
    """Nothing happens after the faults stop."""
    run = Run(1)
    run.random_actions.begin()
    run.world.run_until(run.world.now_ms + 5_000)
    run.random_actions.stop()
    before = len(run.clients)
    run.world.run_until(run.world.now_ms + CHAOS_MS)
    assert len(run.clients) <= before


def test_a_consumer_that_no_gateway_can_notice_commits_nothing() -> None:
    """A consumer comes to the cluster and leaves while the gateway is down (DEV D36, seed
    93878)."""
    stage = Stage()
    owner = stage.native("n1")
    stage.wait()
    assert owner.claims
    stage.driver.crash(2 * INTRUSION_MS_MAX)
    stage.wait(100)
    stored = dict(stage.cluster.offsets)
    stage.random_actions.intrude()
    stage.wait(INTRUSION_MS_MAX)
    assert stage.cluster.offsets == stored
    actions = [what for _at_ms, who, what in stage.world.transcript if who == INTRUDER]
    assert actions == ["is in the group in the cluster", "leaves"]
