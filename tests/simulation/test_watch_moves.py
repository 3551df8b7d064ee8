"""A member that may own partitions is not given up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.invariants import BrokenInvariantError
from tests.simulation.leader import STICKY
from tests.simulation.plan import Plan
from tests.simulation.planted_bugs import moves
from tests.simulation.planted_bugs.bug import Bug
from tests.simulation.settling import come_to_rest
from tests.simulation.stage import PEACEFUL, Stage

COOPERATIVE: dict[str, Any] = {"protocols": (STICKY,), "is_cooperative": True}
CLASSIC = ("classic", "classic")
FORWARDS = replace(PEACEFUL, hosts_all=False)
SLOW = {"heartbeat_interval_ms": 4_000, "session_timeout_ms": 6_000}
LONG_CALLBACK = {"session_timeout_ms": 4_000, "rebalance_timeout_ms": 60_000, "callback_ms": 60_000}


def group(*kinds: str, plan: Plan = PEACEFUL, after_ms: int = 10_000, **how: Any) -> Stage:
    """A group of native and classic clients, which have owned partitions for some time."""
    stage = Stage(plan=plan)
    for number, kind in enumerate(kinds, start=1):
        if kind == "native":
            stage.native(f"c{number}")
        else:
            stage.classic(f"c{number}", **how)
    stage.wait(after_ms)
    return stage


def release_group(*kinds: str, **how: Any) -> Stage:
    """A group that is released; of two classic clients unless other kinds are named."""
    stage = group(*(kinds or CLASSIC), **how)
    stage.driver.process.release()
    return stage


def adopt_group(*kinds: str, **how: Any) -> Stage:
    """A stage with a group of the cluster, which is adopted."""
    stage = group(*(kinds or CLASSIC), plan=FORWARDS, **how)
    stage.driver.process.adopt()
    return stage


def killed_in_a_release() -> Stage:
    stage = release_group()
    while not stage.whereabouts.moving:
        stage.wait(1)
    stage.driver.crash(100)
    return stage


def killed_in_an_adoption(**how: Any) -> Stage:
    """The others have been let go in the cluster."""
    stage = adopt_group(**how)
    while not (stage.whereabouts.moving and len(stage.cluster.group.describe().members) == 1):
        stage.wait(1)
    stage.driver.crash(100)
    return stage


def left_in_a_release() -> Stage:
    """One client leaves while the other has not revoked its partitions yet."""
    stage = release_group(callback_ms=3_000, rebalance_timeout_ms=30_000)
    stage.wait(50)
    stage.clients[0].close()
    return stage


def doubled_in_a_release() -> Stage:
    """A second client with the instance id of one that has not revoked its partitions yet."""
    stage = Stage()
    first = stage.native("c1", instance_id="one")
    stage.native("c2")
    stage.wait(10_000)
    stage.driver.process.release()
    first.freeze()
    stage.world.after(5_000, first.thaw)
    stage.native("c3", instance_id="one")
    return stage


SCENES: dict[Bug, Callable[[], Stage]] = {
    moves.a_claim_counts_as_giving_up: lambda: release_group(**COOPERATIVE),
    moves.a_silent_member_gets_half_its_session: lambda: release_group(after_ms=8_500, **SLOW),
    moves.a_heartbeat_keeps_no_recalled_member: lambda: release_group(**LONG_CALLBACK),
    moves.a_leaver_takes_all_members_with_it: left_in_a_release,
    moves.a_syncing_member_has_given_up: lambda: killed_in_an_adoption(**COOPERATIVE),
    moves.a_native_member_is_let_go_when_it_is_told: lambda: release_group(
        "native", "classic", "native"
    ),
    moves.a_recall_lasts_two_seconds: lambda: release_group(
        callback_ms=3_000, rebalance_timeout_ms=30_000
    ),
    moves.a_return_counts_on_every_connection: lambda: release_group(**COOPERATIVE),
    moves.a_second_client_of_an_instance_ends_the_claims_of_the_first: doubled_in_a_release,
    moves.a_release_waits_for_nobody: release_group,
    moves.a_restart_takes_a_release_for_over: killed_in_a_release,
    moves.a_commit_ends_a_claim: release_group,
    moves.a_restart_undoes_without_waiting: killed_in_an_adoption,
    moves.a_restart_forgets_who_is_released: killed_in_a_release,
    moves.a_restart_forgets_who_is_adopted: killed_in_an_adoption,
}


def play(scene: Callable[[], Stage]) -> None:
    stage = scene()
    stage.wait(40_000)
    come_to_rest(stage)


@pytest.mark.parametrize("bug", SCENES, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Without the bug, the same scene breaks no promise."""
    play(SCENES[bug])
    bug.plant(monkeypatch)
    with pytest.raises(BrokenInvariantError) as broken:
        play(SCENES[bug])
    assert broken.value.invariant in bug.checks


def test_every_planted_bug_has_a_scene() -> None:
    assert {bug for bug in vars(moves).values() if isinstance(bug, Bug)} == {*SCENES}


def test_members_give_up_before_the_cluster_has_them() -> None:
    stage = release_group()
    stage.wait(20_000)
    assert stage.world.counts["releases"] == 1
    assert stage.cluster.group.has_other_members
    assert all(client.is_settled for client in stage.clients)
