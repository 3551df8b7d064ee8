"""Gateways that share out the shards of a fleet, in simulated time."""

import pytest

from gateway.fleet.member import NO_SLOT
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from tests.simulation.broker_profiles import PROFILES
from tests.simulation.fleet.world import (
    FIRST_RUN,
    QUIET_MS,
    SHARDS,
    Gateway,
    World,
    disturb,
)


def test_the_first_gateway_has_all_shards_and_a_second_gets_half_of_them() -> None:
    """The second one founds nothing, and the first keeps the rest open."""
    world = World()
    first = world.start("a")
    world.check_rest()
    before = set(first.open)
    world.start("b")
    world.check_rest()
    assert first.open < before
    assert world.foundings == 1


def test_a_gateway_that_leaves_has_left_once_others_have_its_shards() -> None:
    """A gateway that is alone leaves immediately: no other one takes what it holds."""
    world = World()
    first, second = world.start("a"), world.start("b")
    world.check_rest()
    first.ownership.begin_to_leave(world.now_ms)
    assert not first.ownership.has_left
    world.run(QUIET_MS)
    assert bool(first.ownership.has_left)
    assert len(second.open) == SHARDS
    request = first.ownership.leave_group()
    assert request is not None
    world.ask(request)
    world.kill(first)
    world.check_rest()
    second.ownership.begin_to_leave(world.now_ms)
    world.run(QUIET_MS)
    assert second.ownership.has_left
    assert len(second.open) == SHARDS


def test_a_fleet_at_rest_asks_for_nothing_but_heartbeats() -> None:
    """No table may follow another for ever."""
    world = World()
    for name in "abc":
        world.start(name)
    world.check_rest()
    requests = world.requests
    world.run(QUIET_MS)
    assert world.requests == requests


class LossyWorld(World):
    """Loses one JoinGroup of all."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.gateway_type = LossyGateway
        self.lost, self.joins = lost, 0


class LossyGateway(Gateway):
    """Sends no JoinGroup whose turn it is to be lost."""

    def _send(self, request: Struct | None, now_ms: int) -> None:
        world = self.world
        assert isinstance(world, LossyWorld)
        if isinstance(request, JoinGroupRequest):
            world.joins += 1
            if world.joins == world.lost:
                self.ownership.on_no_answer("lost", now_ms)
                return
        super()._send(request, now_ms)


@pytest.mark.parametrize("lost", range(1, 9))
def test_what_a_lost_join_was_to_announce_is_announced_again(lost: int) -> None:
    """A shard that a gateway has given up would stay with nobody until the next change."""
    world = LossyWorld(lost)
    for name in "ab":
        world.start(name)
        world.check_rest()
    assert world.joins >= lost


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_killed_gateway_is_replaced_at_its_address_under_its_slot(*, is_removed: bool) -> None:
    """Its shards are served elsewhere meanwhile, soon if a neighbour removes it."""
    world = World()
    for name in "abc":
        world.start(name)
    world.check_rest()
    killed = world.gateways[1]
    slot = killed.ownership.slot
    world.kill(killed)
    if is_removed:
        world.remove("b")
        world.run(2_000)
    else:
        world.run(9_000)
    assert sorted(shard for gateway in world.gateways for shard in gateway.open) == [*range(SHARDS)]
    back = world.start("b")
    world.check_rest()
    assert back.ownership.slot == slot


def test_a_gateway_at_another_address_gets_another_slot() -> None:
    """This holds although it has the same name: clients would not notice that its nodes have
    moved."""
    world = World()
    world.start("a")
    killed = world.start("b", 9092)
    world.check_rest()
    slot = killed.ownership.slot
    world.kill(killed)
    back = world.start("b", 9292)
    world.check_rest()
    assert back.ownership.slot not in (NO_SLOT, slot)
    assert back.ownership.table is not None
    assert [gone.slot for gone in back.ownership.table.gone] == [slot]


def test_of_two_gateways_of_one_name_one_ends() -> None:
    """The other one stays."""
    world = World()
    world.forgets_slots = True
    first = world.start("a")
    world.check_rest()
    second = world.start("a", 9292)
    world.run(QUIET_MS)
    assert len(world.superseded) == 1
    assert {first, second} == {*world.gateways, *world.superseded}
    world.check_rest()


def test_a_fleet_takes_its_shards_back_from_a_gateway_outside() -> None:
    """The new runs are later than that gateway's."""
    world = World()
    first, second = world.start("a"), world.start("b")
    world.check_rest()
    world.foundings = 5
    for gateway in (first, second):
        gateway.fenced = set(gateway.open)
    world.last_run = dict.fromkeys(range(SHARDS), FIRST_RUN * 5)
    world.check_rest()
    assert min(world.last_run.values()) > FIRST_RUN * 6 - 1


def test_a_refusal_of_the_cluster_is_shown_until_it_lets_the_gateway_in() -> None:
    """An operator may have to allow something."""
    world = World()
    gateway = world.start("a")
    owned = gateway.ownership
    assert owned.advance(0) is not None
    refused = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    owned.on_answer(refused, 0)
    assert owned.trouble == "the cluster answered JoinGroup with GROUP_AUTHORIZATION_FAILED"
    world.check_rest()
    assert owned.trouble is None


@pytest.mark.parametrize("seed", range(9))
def test_no_shard_is_opened_that_another_member_holds(seed: int) -> None:
    """Whatever happens to gateways and answers, and afterwards every shard is open once, in front
    of brokers of each kind."""
    world = World(seed, PROFILES[seed // 3])
    for name in "abc":
        world.start(name)
    world.loses_answers = seed % 2 == 0
    world.forgets_slots = seed % 3 == 0
    for _ in range(40):
        world.run(world.rng.choice((50, 200, 1_000, 5_000, 12_000)))
        disturb(world)
    world.loses_answers = False
    for gateway in tuple(world.gateways):
        gateway.is_paused = False
        if gateway.ownership.is_leaving or gateway.ownership.is_superseded:
            world.kill(gateway)
    if not world.gateways:
        world.start("z")
    world.check_rest()
