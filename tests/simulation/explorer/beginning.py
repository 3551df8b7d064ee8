"""The first state of a world."""

from collections.abc import Iterable
from dataclasses import replace

from coordinator.interface.config import MigrationPolicy
from coordinator.interface.records import ClassicGroupMetadata, ClassicGroupValue
from gateway.hosting.anchor import RENEWAL_INTERVAL_MS
from tests.simulation.broker_group import BrokerGroup
from tests.simulation.explorer.group_port import GroupPort
from tests.simulation.explorer.moves import free_moves
from tests.simulation.explorer.moving_world import MovingWorld
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_cluster import FIRST_GENERATION, GROUP, Cluster
from tests.simulation.explorer.small_consumers import small_topics
from tests.simulation.explorer.small_world import (
    OFFSETS_APART,
    START_MS,
    World,
    new_machine,
)

NO_GROUP = ClassicGroupValue(protocol_type=None, generation=0, protocol=None, leader=None)
QUIET_MOVES_MAX = 500
"""Moves until a new world is at rest."""


def begin(shape: Shape) -> World | MovingWorld:
    """The first state of a world."""
    return begin_moving(shape) if shape.is_adoption or shape.is_release else begin_hosted(shape)


def begin_hosted(shape: Shape) -> World:
    """A world whose group the gateway hosts."""
    world = World(
        shape=shape,
        budgets=dict(shape.budgets),
        topics=small_topics(shape.partition_count),
        cluster=Cluster([(n + 2) * OFFSETS_APART for n in range(shape.partition_count)]),
        machine=new_machine(shape, 1, START_MS),
        consumers={name: None for name, _kind in shape.consumers},
        kinds=dict(shape.consumers),
    )
    if shape.begins_at_rest:
        _start(world)
        # The anchor has then shown its partitions, and may show others.
        _settle_down(world, until_ms=world.now_ms + 2 * RENEWAL_INTERVAL_MS)
    return world


def begin_moving(shape: Shape) -> MovingWorld:
    """A world whose group the cluster serves, or the gateway if it may be released."""
    topics, config = small_topics(shape.partition_count), shape.config
    if shape.converts_none:
        config = replace(config, consumer_migration_policy=MigrationPolicy.DOWNGRADE)
    upstream = BrokerGroup(GROUP, shape.profile, config)
    empty = replace(NO_GROUP, generation=FIRST_GENERATION)
    upstream.engine.load([ClassicGroupMetadata(value=empty)], now_ms=0)
    members = (*shape.consumers, *shape.beside)
    world = MovingWorld(
        shape=shape,
        budgets=dict(shape.budgets),
        topics=topics,
        upstream=upstream,
        offsets=[(n + 2) * OFFSETS_APART for n in range(shape.partition_count)],
        port=GroupPort.start(shape, 1, topics, START_MS),
        consumers={name: None for name, _kind in members},
        kinds=dict(members),
    )
    upstream.on_step = world.note_step_of_cluster
    if shape.begins_at_rest:
        _start(world, [name for name, _kind in shape.consumers if name not in shape.starts_later])
        # The anchor has then shown its partitions, and each member has sent a heartbeat.
        _settle_down(world, until_ms=world.now_ms + 2 * RENEWAL_INTERVAL_MS)
        world.is_excused = world.has_fault = False
        world.unowned_ms.clear()
    for move in shape.begins_with:
        world.play(move)
    return world


def _start(world: World | MovingWorld, names: Iterable[str] | None = None) -> None:
    everybody = [name for name, _kind in world.shape.consumers]
    for name in everybody if names is None else names:
        world.play(f"start {name}")
        _settle_down(world)


def _settle_down(world: World | MovingWorld, until_ms: int = START_MS) -> None:
    for _ in range(QUIET_MOVES_MAX):
        if world.is_at_rest() and world.now_ms >= until_ms:
            return
        world.play(free_moves(world)[0])
    raise BrokenPromiseError("the consumers do not come to rest")
