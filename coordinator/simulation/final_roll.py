"""A calm roll after the chaos: one native client after the other comes back as a classic one.

What a lively group hides shows then: nobody else's heartbeat repairs what a leaver, the conversion
or a topic that grows has left undone. After each step the group must come to rest again.
"""

from coordinator.consumer.group import ConsumerGroup
from coordinator.simulation.client import Client
from coordinator.simulation.cluster import PARTITIONS_MAX
from coordinator.simulation.invariants import Invariant, require
from coordinator.simulation.native_client import NativeClient
from coordinator.simulation.settling import ROUND_MS, Scene, come_to_rest

CLOSING_ROUNDS_MAX = 10


def roll_to_classic(scene: Scene) -> None:
    """In every other run, for the time it takes. Raises BrokenInvariantError."""
    world = scene.world
    if world.chance(0.5):
        return
    _move_a_replica(scene)
    natives = [c for c in scene.clients if isinstance(c, NativeClient) and not c.is_dead]
    # A static one last: only its return as a classic one may convert the group without a rebalance.
    for client in sorted(natives, key=lambda c: c.spec.instance_id is not None):
        world.tell("operator", f"rolls {client.name}")
        _close(scene, client)
        scene.random_actions.start(client.spec, is_native=False)
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
    """A consumer group computes a new target, because racks may count."""
    group = scene.driver.engine.state.group
    if not scene.cluster.has_racks or not isinstance(group, ConsumerGroup):
        return
    read = sorted(scene.cluster.topics.by_name.keys() & group.subscribers.keys())
    if not read:
        return
    epoch = group.epoch
    scene.cluster.move_replica(read[-1])
    come_to_rest(scene)
    group = scene.driver.engine.state.group
    require(
        not isinstance(group, ConsumerGroup) or group.epoch > epoch,
        Invariant.LIVENESS,
        "nobody noticed that a replica moved",
    )


def _grow_a_topic(scene: Scene) -> None:
    # The last by name is the one that most subscribe to.
    for name, topic in sorted(scene.cluster.topics.by_name.items(), reverse=True):
        if topic.partition_count < PARTITIONS_MAX:
            scene.cluster.grow(name)
            return
