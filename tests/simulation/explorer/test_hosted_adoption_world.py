"""A world of adoption with the whole hosting machine, move by move."""

from dataclasses import replace

import pytest

from gateway.hosting.adoption_steps import Treatment
from gateway.hosting.states import AdoptionStage, Mode
from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.hosted_adoption_world import HostedAdoptionWorld
from tests.simulation.explorer.moves import free_moves, make
from tests.simulation.explorer.worlds import WORLDS

MOVES_MAX = 200
SHAPE = replace(WORLDS["adopt-whole"], budgets={"adopt": 1, "commit": 2, "restart": 1})


@pytest.fixture
def world() -> HostedAdoptionWorld:
    made = begin(SHAPE)
    assert isinstance(made, HostedAdoptionWorld)
    return made


def until_rest(world: HostedAdoptionWorld) -> None:
    for _ in range(MOVES_MAX):
        if world.is_at_rest():
            return
        make(world, free_moves(world)[0])
        check(world)
    raise AssertionError(f"it does not come to rest: {world}")


def until_stage(world: HostedAdoptionWorld, stage: AdoptionStage) -> None:
    while world.group.adoption.stage is not stage:
        make(world, free_moves(world)[0])


def is_adopted(world: HostedAdoptionWorld) -> bool:
    return world.group.is_live and world.upstream.is_anchored


def test_the_cluster_serves_the_group_at_first(world: HostedAdoptionWorld) -> None:
    assert world.is_at_rest()
    assert not world.group.is_live
    make(world, "wait")
    make(world, "send a")
    make(world, "answer Look")
    assert world.group.standing.verdict.mode is Mode.FORWARDED
    until_rest(world)


def test_the_group_is_adopted_and_its_commits_are_stored(world: HostedAdoptionWorld) -> None:
    make(world, "adopt")
    make(world, "commit a")
    until_rest(world)
    assert is_adopted(world)
    make(world, "commit b")
    until_rest(world)
    assert len(world.acknowledged) == SHAPE.partition_count


def test_a_commit_that_arrives_while_calls_are_held_is_stored_later(
    world: HostedAdoptionWorld,
) -> None:
    make(world, "adopt")
    until_stage(world, AdoptionStage.LOCKING)
    make(world, "commit a")
    assert world.sendings["a"].route == "held"
    until_rest(world)
    assert is_adopted(world)
    assert world.acknowledged


@pytest.mark.parametrize(
    ("stage", "goes_on"), [(AdoptionStage.RELEASING, False), (AdoptionStage.ANCHORING, True)]
)
def test_the_next_process_goes_on_with_what_the_log_has(
    world: HostedAdoptionWorld, stage: AdoptionStage, goes_on: bool
) -> None:
    make(world, "adopt")
    until_stage(world, stage)
    make(world, "restart")
    assert world.treatment is Treatment.HELD
    for _ in range(MOVES_MAX):
        if not world.group.adoption.is_under_way:
            break
        make(world, free_moves(world)[0])
        check(world)
    assert is_adopted(world) == goes_on
    until_rest(world)
