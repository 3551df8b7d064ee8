"""A roll without faults: each native client restarts as a classic one, one after the other.

It reveals mistakes that a busy group hides, because no other heartbeat repairs what a leaver, the
conversion or a growing topic left undone. After each step the group must settle again.
"""

from coordinator.group.consumer_group import ConsumerGroup
from tests.simulation.client import Client
from tests.simulation.cluster import PARTITIONS_MAX
from tests.simulation.invariants import Invariant, require
from tests.simulation.native_client import NativeClient
from tests.simulation.settling import ROUND_MS, Scene, come_to_rest

CLOSING_ROUNDS_MAX = 10


def roll_to_classic(scene: Scene) -> None:
    """Roll all native clients, in half of the runs. Raises BrokenInvariantError."""
    world = scene.world
    if world.chance(0.5):
        return
    _move_a_replica(scene)
    natives = [c for c in scene.clients if isinstance(c, NativeClient) and not c.is_dead]
    # Static clients come last: only their return may convert the group without a rebalance.
    for client in sorted(natives, key=lambda c: c.spec.instance_id is not None):
        world.trace("operator", f"rolls {client.name}")
        _close(scene, client)
        scene.random_actions.start(client.spec, is_native=False, before=client)
        come_to_rest(scene)
    _grow_a_topic(scene)
    come_to_rest(scene)
    world.counts["rolls to classic"] += 1


def _close(scene: Scene, client: Client) -> None:
    client.close()
    for _ in range(CLOSING_ROUNDS_MAX):
        if client.is_dead:
            return
        scene.world.run_until(scene.world.now_ms + ROUND_MS)
    client.die("does not close")


def _move_a_replica(scene: Scene) -> None:
    """Move a replica and require a new epoch, because assignors may use racks."""
    group = scene.whereabouts.state.group
    if not scene.cluster.has_racks or not isinstance(group, ConsumerGroup):
        return
    read = sorted(scene.cluster.topics.by_name.keys() & group.subscribers.keys())
    if not read:
        return
    epoch = group.epoch
    scene.cluster.move_replica(read[-1])
    come_to_rest(scene)
    group = scene.whereabouts.state.group
    require(
        not isinstance(group, ConsumerGroup) or group.epoch > epoch,
        Invariant.LIVENESS,
        "the group did not notice that a replica moved",
    )


def _grow_a_topic(scene: Scene) -> None:
    has_static = any(client.spec.instance_id for client in scene.clients if not client.is_dead)
    if has_static and not scene.whereabouts.is_hosted:
        return  # a static member that came back as the leader may not know that it leads (KIP-814)
    # Most clients subscribe to the topic with the last name.
    for name, topic in sorted(scene.cluster.topics.by_name.items(), reverse=True):
        if topic.partition_count < PARTITIONS_MAX:
            scene.cluster.grow(name)
            return
