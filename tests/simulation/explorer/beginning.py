"""The first state of a world."""

from collections.abc import Iterable
from dataclasses import replace

from coordinator.interface.config import MigrationPolicy
from coordinator.interface.records import ClassicGroupMetadata, ClassicGroupValue
from gateway.hosting.anchor import RENEWAL_INTERVAL_MS
from tests.simulation.broker_group import BrokerGroup
from tests.simulation.explorer.group_port import GroupPort
from tests.simulation.explorer.moves import free_moves
from tests.simulation.explorer.numbers import (
    FIRST_EPOCH,
    FIRST_GENERATION,
    GROUP,
    OFFSETS_APART,
    START_MS,
)
from tests.simulation.explorer.playing import play
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import small_topics
from tests.simulation.explorer.small_world import World

QUIET_MOVES_MAX = 500
"""Moves until a new world is at rest."""


def begin(shape: Shape) -> World:
    """A world whose group the gateway hosts, or the cluster serves if it may be adopted."""
    topics, config = small_topics(shape.partition_count), shape.config
    if shape.converts_none:
        config = replace(config, consumer_migration_policy=MigrationPolicy.DOWNGRADE)
    upstream = BrokerGroup(GROUP, shape.profile, config)
    upstream.engine.load([_empty(FIRST_GENERATION)], now_ms=0)
    members = (*shape.consumers, *shape.beside)
    world = World(
        shape=shape,
        budgets=dict(shape.budgets),
        topics=topics,
        upstream=upstream,
        offsets=[(n + 2) * OFFSETS_APART for n in range(shape.partition_count)],
        port=GroupPort.start(shape, 1, topics),
        consumers={name: None for name, _kind in members},
        kinds=dict(members),
        log=() if shape.is_adoption else (_empty(FIRST_EPOCH),),
    )
    upstream.on_step = world.record_step_of_cluster
    if shape.begins_at_rest:
        _start(world, [name for name, _kind in shape.consumers if name not in shape.starts_later])
        # The anchor has then shown its partitions, and each member has sent a heartbeat.
        _settle_down(world, until_ms=world.now_ms + 2 * RENEWAL_INTERVAL_MS)
    world.is_excused = world.has_fault = not shape.moves_group
    world.unowned_ms.clear()
    for move in shape.begins_with:
        play(world, move)
    return world


def _empty(generation: int) -> ClassicGroupMetadata:
    value = ClassicGroupValue(protocol_type=None, generation=generation, protocol=None, leader=None)
    return ClassicGroupMetadata(value=value)


def _start(world: World, names: Iterable[str]) -> None:
    for name in names:
        play(world, f"start {name}")
        _settle_down(world)


def _settle_down(world: World, until_ms: int = START_MS) -> None:
    for _ in range(QUIET_MOVES_MAX):
        if world.is_at_rest() and world.now_ms >= until_ms:
            return
        play(world, free_moves(world)[0])
    raise BrokenPromiseError("the consumers do not come to rest")
