"""Each check notices what it is there for."""

import pytest

from coordinator.interface.topics import Partition
from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.small_consumers import TOPIC_ID
from tests.simulation.explorer.small_world import World
from tests.simulation.explorer.worlds import WORLDS

BOTH = {Partition(TOPIC_ID, 0), Partition(TOPIC_ID, 1)}


@pytest.fixture
def world() -> World:
    world = begin(WORLDS["switch"])
    check(world)
    return world


def test_two_owners(world: World) -> None:
    for consumer in world.consumers.values():
        assert consumer is not None
        consumer.claims = BOTH
    with pytest.raises(BrokenPromiseError, match="a and b own 0"):
        check(world)


def test_an_owner_whose_lease_is_over_does_not_count(world: World) -> None:
    for consumer in world.consumers.values():
        assert consumer is not None
        consumer.lease_over_ms = world.now_ms
        consumer.claims = BOTH
    check(world)


def test_an_owner_that_the_group_does_not_know(world: World) -> None:
    assert world.consumers["b"] is not None
    world.consumers["b"].member_id = "x"
    with pytest.raises(BrokenPromiseError, match="does not know its member"):
        check(world)


def test_an_owner_of_a_partition_that_the_group_holds_for_another(world: World) -> None:
    a, b = world.consumers["a"], world.consumers["b"]
    assert a is not None
    assert b is not None
    a.claims, b.claims = b.claims, a.claims
    with pytest.raises(BrokenPromiseError, match="which the group holds for"):
        check(world)


def test_a_commit_that_is_lost(world: World) -> None:
    world.acknowledged[1] = world.offsets[1] + 1
    with pytest.raises(BrokenPromiseError, match="1 records of 1 are lost"):
        check(world)


def test_a_table_of_the_engine_that_is_wrong(world: World) -> None:
    group = world.here.state.group
    assert group is not None
    group.members.drop("b")
    with pytest.raises(BrokenPromiseError, match="engine: "):
        check(world)
