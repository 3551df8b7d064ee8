"""The group in the cluster answers in simulated time."""

from coordinator.interface.topics import Topics
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.simulation.broker_profiles import KAFKA_2_8, KAFKA_4_3, BrokerProfile
from tests.simulation.cluster import GROUP
from tests.simulation.cluster_group import ClusterGroup
from tests.simulation.world import World
from tests.support.simulation import PEACEFUL


def group_of(world: World, profile: BrokerProfile = KAFKA_4_3) -> ClusterGroup:
    return ClusterGroup(world, GROUP, profile, PEACEFUL.config, Topics)


def test_the_first_round_waits_for_the_initial_delay() -> None:
    world = World(1)
    group = group_of(world)
    group.intrude()
    assert group.has_intruder
    assert group.generation == 0
    world.run_until(world.now_ms + KAFKA_4_3.initial_rebalance_delay_ms)
    assert group.generation == 1


def test_a_coordinator_that_moves_forgets_who_has_not_joined_yet() -> None:
    """A broker of 2.8 closes the connections of parked requests."""
    for profile in (KAFKA_2_8, KAFKA_4_3):
        group = group_of(World(1), profile)
        group.intrude()
        group.move()
        assert not group.has_intruder


def test_a_description_is_answered_at_once() -> None:
    group = group_of(World(1))
    answers: list[Struct | None] = []
    group.ask(DescribeGroupsRequest(groups=(GROUP,)), answers.append)
    (answer,) = answers
    assert isinstance(answer, DescribeGroupsResponse)
    assert answer.groups[0].group_state == "Dead"
