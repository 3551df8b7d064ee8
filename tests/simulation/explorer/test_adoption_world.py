"""A world in which a group moves behind the gateway."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gateway.hosting.adoption_steps import Treatment
from gateway.hosting.states import AdoptionStage as Stage
from tests.simulation.explorer.adoption_moves import check, free_moves
from tests.simulation.explorer.adoption_world import AdoptionWorld
from tests.simulation.explorer.beginning import begin_forwarded
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.upstream import is_anchor
from tests.simulation.explorer.worlds import WORLDS


@pytest.fixture
def world() -> AdoptionWorld:
    return begin_forwarded(WORLDS["adopt"])


def play(world: AdoptionWorld, *moves: str) -> None:
    for move in moves:
        world.play(move)
        check(world)


def play_on(world: AdoptionWorld, until: Iterable[Stage]) -> None:
    """Let the machine and the cluster go on until the adoption is at a stage."""
    stages = set(until)
    while world.machine is not None and world.machine.stage not in stages:
        moves = [move for move in free_moves(world) if move.startswith(("answer", "hear"))]
        play(world, moves[0])


def test_the_cluster_serves_the_group_at_first(world: AdoptionWorld) -> None:
    assert world.is_at_rest()
    assert world.treatment is Treatment.FORWARDED
    assert len(world.upstream.describe().members) == 2


def test_consumers_keep_members_generation_and_partitions(world: AdoptionWorld) -> None:
    before = {each.member_id: each.epoch for each in world.consumers.values() if each is not None}
    claims = [each.claims for each in world.consumers.values() if each is not None]
    play(world, "adopt")
    play_on(world, ())
    assert world.treatment is Treatment.HOSTED
    group = world.here.state.group
    assert group is not None
    assert set(group.members) == set(before)
    assert [each.claims for each in world.consumers.values() if each is not None] == claims
    (anchor,) = world.upstream.describe().members
    assert is_anchor(anchor.member_id)
    play(world, "wait", "send a", "send b")
    assert world.is_at_rest()


def test_a_commit_waits_until_the_anchor_holds_the_group(world: AdoptionWorld) -> None:
    play(world, "adopt")
    play_on(world, [Stage.RELEASING])
    play(world, "commit a")
    assert not world.storing()
    play_on(world, ())
    assert world.storing() == ["a"]
    play(world, "store a")
    assert world.acknowledged


def test_calls_are_not_held_before_relayed_ones_are_answered(world: AdoptionWorld) -> None:
    play(world, "commit a", "adopt", "answer Describe", "answer Describe", "answer Store")
    assert "answer Hold" not in free_moves(world)
    play(world, "store a")
    assert "answer Hold" in free_moves(world)


def test_an_outsider_ends_the_adoption_by_an_ordinary_rebalance() -> None:
    world = begin_forwarded(WORLDS["adopt-outsider"])
    play(world, "adopt")
    play_on(world, [Stage.RELEASING])
    play(world, "start o", "send o", "send o")
    for _ in range(200):
        if world.is_at_rest():
            break
        play(world, free_moves(world)[0])
    assert world.is_at_rest()
    assert world.treatment is Treatment.FORWARDED
    assert len(world.upstream.describe().members) == 3


@pytest.mark.parametrize("how", ["restart", "restart sent"])
def test_a_killed_gateway_finds_the_adoption_in_its_log(world: AdoptionWorld, how: str) -> None:
    play(world, "adopt")
    play_on(world, [Stage.ANCHORING])
    play(world, how)
    assert world.machine is not None
    assert world.machine.stage is Stage.RESUMING
    play_on(world, ())
    assert world.treatment is Treatment.HOSTED


def test_a_rebalance_that_nothing_excuses_breaks_the_promise(world: AdoptionWorld) -> None:
    consumer = world.consumers["a"]
    assert consumer is not None
    consumer.member_id = "unknown"
    play(world, "wait")
    with pytest.raises(BrokenPromiseError, match="a sees UNKNOWN_MEMBER_ID"):
        play(world, "send a")


def test_two_owners_break_the_promise(world: AdoptionWorld) -> None:
    a, b = world.consumers["a"], world.consumers["b"]
    assert a is not None
    assert b is not None
    a.claims |= b.claims
    with pytest.raises(BrokenPromiseError, match="a and b own 1"):
        check(world)


def test_consumers_beside_the_gateway_are_named_apart() -> None:
    shape = replace(WORLDS["adopt"], beside=(("o", Kind.EAGER),))
    world = begin_forwarded(shape)
    assert world.behind == ["a", "b"]
    assert world.consumers["o"] is None
