"""A world in which a group goes back to the cluster."""

import pytest

from coordinator.group.consumer_group import ConsumerGroup
from gateway.hosting.adoption_steps import Treatment
from gateway.hosting.states import ReleaseStage as Stage
from tests.simulation.explorer.adoption_moves import check, free_moves
from tests.simulation.explorer.beginning import begin_adopted
from tests.simulation.explorer.release_world import ReleaseWorld
from tests.simulation.explorer.worlds import WORLDS

MOVES_MAX = 100


@pytest.fixture
def world() -> ReleaseWorld:
    return begin_adopted(WORLDS["release"])


def play_on(world: ReleaseWorld, until: Stage | None = None) -> None:
    """Let everybody go on until the release is at a stage, or over."""
    for _ in range(MOVES_MAX):
        machine = world.releasing
        if machine is None or machine.stage is until:
            return
        world.play(free_moves(world)[0])
        check(world)
    raise AssertionError(f"it does not come to {until}")


def test_the_gateway_hosts_the_group_at_first(world: ReleaseWorld) -> None:
    assert world.is_at_rest()
    assert world.treatment is Treatment.HOSTED
    assert world.may_release


def test_the_members_come_back_in_one_generation(world: ReleaseWorld) -> None:
    world.play("release")
    play_on(world)
    generation = world.upstream.generation
    while not world.is_at_rest():
        world.play(free_moves(world)[0])
        check(world)
    assert world.treatment is Treatment.FORWARDED
    assert world.upstream.generation == generation
    assert len(world.upstream.describe().members) == 2


def test_the_anchor_waits_for_a_commit(world: ReleaseWorld) -> None:
    world.play("commit a")
    world.play("release")
    for _ in range(MOVES_MAX):
        if world.releasing is None or not world.releasing.holders:
            break
        moves = [each for each in free_moves(world) if not each.startswith("store")]
        world.play(moves[0] if moves else "slow")
    assert world.releasing is not None
    assert world.releasing.stage is Stage.RECALLING
    world.play("store a")
    assert world.releasing.stage is not Stage.RECALLING


def test_the_commit_of_a_crashed_consumer_ends(world: ReleaseWorld) -> None:
    """Found by release-crash with commit=1."""
    world.play("commit a")
    world.play("crash a")
    for _ in range(MOVES_MAX):
        if not world.is_at_rest():
            world.play(free_moves(world)[0])
            check(world)
    assert not world.here.state.commits
    assert world.is_at_rest()


@pytest.mark.parametrize("stage", [Stage.RECALLING, Stage.ANNOUNCING, Stage.GATHERING])
def test_a_killed_gateway_goes_on(world: ReleaseWorld, stage: Stage) -> None:
    world.play("release")
    play_on(world, stage)
    world.play("restart")
    assert world.releasing is not None
    play_on(world)
    assert world.treatment is Treatment.FORWARDED


def test_a_native_consumer_revokes_here_and_comes_back_in_the_cluster() -> None:
    world = begin_adopted(WORLDS["release-native"])
    world.play("release")
    play_on(world, Stage.LEAVING)
    assert not any(consumer.claims for consumer in world.consumers.values() if consumer is not None)
    assert world.treatment is Treatment.RECALLED
    while not world.is_at_rest():
        world.play(free_moves(world)[0])
        check(world)
    group = world.upstream.engine.state.group
    assert isinstance(group, ConsumerGroup)
    assert group.native_count == 1
    assert len(group.members) == 2


def test_an_outsider_joins_the_round_of_a_release() -> None:
    world = begin_adopted(WORLDS["release-outsider"])
    world.play("release")
    play_on(world, Stage.GATHERING)
    world.play("start o")
    while not world.is_at_rest():
        world.play(free_moves(world)[0])
        check(world)
    assert len(world.upstream.describe().members) == 3
