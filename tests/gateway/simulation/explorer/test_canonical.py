"""The canonical form: equal for worlds that differ in names and times only."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.standing import FOUND_FREE_FOR_MS
from gateway.simulation.explorer.beginning import begin_hosted
from gateway.simulation.explorer.canonical import canonical, digest
from gateway.simulation.explorer.moves import free_moves, make
from gateway.simulation.explorer.small_world import World
from gateway.simulation.explorer.worlds import WORLDS


def around(world: World) -> None:
    """Let everyone send a heartbeat."""
    make(world, "wait")
    while not world.is_at_rest() or set(free_moves(world)) - {"wait"}:
        make(world, free_moves(world)[0])


def test_a_round_of_heartbeats_leads_back() -> None:
    world = begin_hosted(WORLDS["switch"])
    around(world)
    before, at_ms, token = digest(world), world.now_ms, world.next_token
    around(world)
    assert digest(world) == before
    assert (world.now_ms, world.next_token) > (at_ms, token)


def test_a_commit_leads_back() -> None:
    """Offsets are relative to the committed ones."""
    world = begin_hosted(WORLDS["commit"])
    world.budgets["commit"] = 9
    for _ in range(2):
        make(world, "commit b")
        make(world, "store b")
        world.budgets["commit"] = 9
    before = canonical(world)
    make(world, "commit b")
    make(world, "store b")
    world.budgets["commit"] = 9
    assert canonical(world) == before


def test_a_member_that_leaves_and_returns_leads_back() -> None:
    """Epochs and ids are relative."""
    world = begin_hosted(WORLDS["switch"])
    forms = set()
    for _ in range(6):
        world.budgets["switch"] = 1
        make(world, "switch b")
        while not world.is_at_rest():
            make(world, free_moves(world)[0])
        around(world)
        forms.add(digest(world))
    assert len(forms) == 2


@pytest.mark.parametrize("has_look", [False, True])
def test_an_old_look_at_the_cluster_counts_by_its_mode_alone(has_look: bool) -> None:
    """Unless a call relies on it."""
    world = begin_hosted(WORLDS["switch"])
    call = Call(api=GroupApi.HEARTBEAT, event=None, token=world.next_token, has_look=has_look)
    world.machine.calls.unanswered[call.token] = call

    def forms(age_ms: int) -> int:
        standing = world.machine.standing
        standing.seen_ms = world.now_ms - age_ms
        seen = set()
        for has_anchor in (False, True):
            standing.verdict = replace(standing.verdict, has_anchor=has_anchor)
            seen.add(digest(world))
        return len(seen)

    assert forms(FOUND_FREE_FOR_MS - 1) == 2
    assert forms(FOUND_FREE_FOR_MS) == (2 if has_look else 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.cluster.remove_member(),
        lambda world: world.cluster.offsets.__setitem__(0, world.cluster.offsets[0] + 1),
        lambda world: world.budgets.__setitem__("switch", 0),
        lambda world: setattr(world, "log", world.log[1:]),
        lambda world: setattr(world.machine.anchor, "wants_look", True),
        lambda world: setattr(world.machine.anchor, "_beat_at_ms", world.now_ms + 77),
        lambda world: setattr(world.consumers["b"], "states_owned", True),
        lambda world: setattr(world.consumers["b"], "epoch", 1),
        lambda world: world.machine.engine.core.state.deadlines.clear(),
        lambda world: setattr(world, "now_ms", world.now_ms + 1),
    ],
)
def test_what_matters_makes_another_form(change: Callable[[World], None]) -> None:
    world = begin_hosted(WORLDS["switch"])
    before = digest(world)
    change(world)
    assert digest(world) != before
