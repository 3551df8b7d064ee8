"""Stops all faults and requires that every member gets its share (invariant 5)."""

from collections import Counter
from typing import Protocol

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.topics import Partition
from tests.simulation.client import Client
from tests.simulation.cluster import Cluster
from tests.simulation.driver import Driver
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.native_client import NativeClient
from tests.simulation.network import Network
from tests.simulation.plan import Plan
from tests.simulation.random_actions import RandomActions
from tests.simulation.whereabouts import Whereabouts
from tests.simulation.world import World

ROUND_MS = 1_000
REST_WITHIN_ROUNDS = 90
"""All sessions, join phases and revocations end within this time."""
QUIET_ROUNDS = 4


class Scene(Protocol):
    """The parts of a run that must settle."""

    world: World
    plan: Plan
    driver: Driver
    network: Network
    cluster: Cluster
    random_actions: RandomActions
    whereabouts: Whereabouts
    clients: list[Client]


def settle(scene: Scene) -> None:
    """Stop all faults. Raises BrokenInvariantError if the group does not settle in time."""
    _end_all_faults(scene)
    scene.world.counts["convergence ms"] = come_to_rest(scene)


def come_to_rest(scene: Scene) -> int:
    """Wait until the group has settled, and return the elapsed milliseconds, to the second.

    Raises BrokenInvariantError if the group does not settle in time.
    """
    world = scene.world
    quiet_rounds, epoch, unsettled = 0, 0, ""
    for round_ in range(REST_WITHIN_ROUNDS):
        world.run_until(world.now_ms + ROUND_MS)
        unsettled = _why_not_settled(scene)
        is_quiet = not unsettled and _epoch(scene) == epoch
        quiet_rounds = quiet_rounds + 1 if is_quiet else 0
        epoch = _epoch(scene)
        if quiet_rounds == QUIET_ROUNDS:
            return (round_ + 1 - QUIET_ROUNDS) * ROUND_MS
    unsettled = unsettled or f"the epoch is {epoch} and still moves"
    raise BrokenInvariantError(
        Invariant.LIVENESS, f"{REST_WITHIN_ROUNDS} s after the faults: {unsettled}"
    )


def _end_all_faults(scene: Scene) -> None:
    scene.world.trace("run", "stops all faults")
    scene.random_actions.stop()
    scene.network.is_calm = True
    scene.network.loss_rate = scene.network.late_rate = scene.network.error_rate = 0.0
    scene.network.slow_rate = 0.0
    scene.cluster.lost_answer_rate = scene.cluster.failure_rate = 0.0
    scene.cluster.end_intrusion()
    scene.driver.around.plug_in_failure_rate = 0.0
    log = scene.driver.log
    log.failure_rate = log.doubt_rate = log.slow_rate = 0.0
    for client in scene.clients:
        if not client.is_dead and not client.is_honest:
            client.die("the faults stopped")
        client.thaw()
        if isinstance(client, NativeClient):
            # A late first heartbeat may have restored an older subscription, because the protocol
            # cannot tell it from a new one.
            client.repeat_subscription()
    if scene.plan.has_policy_changes:
        scene.random_actions.allow()
    scene.random_actions.reinforce()


def _epoch(scene: Scene) -> int:
    match scene.whereabouts.state.group:
        case ClassicGroup() as group:
            return group.core.generation
        case ConsumerGroup() as group:
            return group.epoch
        case None:
            return 0


def _why_not_settled(scene: Scene) -> str:
    """The reason why the group has not settled; empty if it has."""
    alive = [client for client in scene.clients if not client.is_dead]
    for client in alive:
        if not client.is_settled:
            return f"{client.name} is not settled"
    if scene.plan.has_moves and scene.driver.process.group.is_moving:
        return "the group changes its coordinator"
    state = scene.whereabouts.engine.describe(scene.cluster.topics).state
    if alive and state != "Stable":
        return f"the group is {state}"
    group = scene.whereabouts.state.group
    members = set(group.members) if group is not None else set()
    if members != {client.member_id for client in alive}:
        return f"the members are {sorted(members)}"
    owned = Counter(partition for client in alive for partition in client.claims)
    by_name = scene.cluster.topics.by_name
    topics = {name for name in by_name if any(client.wants(name) for client in alive)}
    wanted = Counter(
        Partition(by_name[name].topic_id, number)
        for name in topics
        for number in range(by_name[name].partition_count)
    )
    if owned != wanted:
        return f"unowned: {sorted(wanted - owned)}, too much: {sorted(owned - wanted)}"
    return ""
