"""A member that may own partitions is not given up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.invariants import BrokenInvariantError
from tests.simulation.leader import STICKY
from tests.simulation.planted_bugs import moves
from tests.simulation.planted_bugs.bug import Bug
from tests.support.simulation import PEACEFUL, Stage

COOPERATIVE: dict[str, Any] = {"protocols": (STICKY,), "is_cooperative": True}
FORWARDS = replace(PEACEFUL, hosts_all=False)
SLOW = {"heartbeat_interval_ms": 4_000, "session_timeout_ms": 6_000}
LONG_CALLBACK = {"session_timeout_ms": 4_000, "rebalance_timeout_ms": 60_000, "callback_ms": 60_000}


def released(after_ms: int = 10_000, **how: Any) -> Stage:
    """A group of two clients that is released. Both have owned partitions for some time."""
    stage = Stage()
    for name in ("c1", "c2"):
        stage.classic(name, **how)
    stage.wait(after_ms)
    stage.driver.process.release()
    return stage


def adopted() -> Stage:
    """The same with a group of the cluster, which is adopted."""
    stage = Stage(plan=FORWARDS)
    for name in ("c1", "c2"):
        stage.classic(name)
    stage.wait(10_000)
    stage.driver.process.adopt()
    return stage


def killed_in_a_release() -> Stage:
    stage = released()
    while not stage.whereabouts.moving:
        stage.wait(1)
    stage.driver.crash(100)
    return stage


def killed_in_an_adoption() -> Stage:
    """The others have been let go in the cluster."""
    stage = adopted()
    while not (stage.whereabouts.moving and len(stage.cluster.group.describe().members) == 1):
        stage.wait(1)
    stage.driver.crash(100)
    return stage


SCENES: dict[Bug, Callable[[], Stage]] = {
    moves.a_claim_counts_as_giving_up: lambda: released(**COOPERATIVE),
    moves.a_silent_member_gets_half_its_session: lambda: released(8_500, **SLOW),
    moves.a_heartbeat_keeps_no_recalled_member: lambda: released(**LONG_CALLBACK),
    moves.a_release_forgets_a_member: released,
    moves.an_adoption_forgets_a_member: adopted,
    moves.a_kill_forgets_the_release: killed_in_a_release,
    moves.a_kill_forgets_the_adoption: killed_in_an_adoption,
}


@pytest.mark.parametrize("bug", SCENES, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Without the bug, the same scene breaks no promise."""
    SCENES[bug]().wait(40_000)
    bug.plant(monkeypatch)
    with pytest.raises(BrokenInvariantError) as broken:
        SCENES[bug]().wait(40_000)
    assert broken.value.invariant in bug.checks


def test_every_planted_bug_has_a_scene() -> None:
    assert [bug for bug in vars(moves).values() if isinstance(bug, Bug)] == [*SCENES]


def test_members_give_up_before_the_cluster_has_them() -> None:
    stage = released()
    stage.wait(20_000)
    assert stage.world.counts["releases"] == 1
    assert stage.cluster.group.has_other_members
    assert all(client.is_settled for client in stage.clients)
