"""The first state of a world."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from coordinator.engine import GroupEngine
from coordinator.interface.config import MigrationPolicy
from gateway.hosting.anchor import RENEWAL_INTERVAL_MS
from tests.simulation.explorer.adoption_world import AdoptionWorld
from tests.simulation.explorer.hosted_adoption_world import hosted
from tests.simulation.explorer.moves import free_moves
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.release_world import ReleaseWorld
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_cluster import GROUP, Cluster
from tests.simulation.explorer.small_consumers import Kind, small_topics
from tests.simulation.explorer.small_world import (
    OFFSETS_APART,
    START_MS,
    World,
    new_machine,
)
from tests.simulation.explorer.upstream import Upstream

_World = TypeVar("_World", bound=AdoptionWorld)

QUIET_MOVES_MAX = 500
"""Moves until a new world is at rest."""


def begin(shape: Shape) -> World | AdoptionWorld:
    """The first state of a world."""
    if shape.is_release:
        return begin_adopted(shape)
    return begin_forwarded(shape) if shape.is_adoption else begin_hosted(shape)


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


def begin_forwarded(shape: Shape) -> AdoptionWorld:
    """A world whose group the cluster serves."""
    world = _new_world(shape, AdoptionWorld)
    if shape.begins_at_rest:
        _start(world)
        world.is_excused = False
    return hosted(world) if shape.is_whole else world


def begin_adopted(shape: Shape) -> ReleaseWorld:
    """A world whose group the gateway has adopted, before native consumers have joined it."""
    world = _new_world(shape, ReleaseWorld)
    _start(world, [name for name, kind in shape.consumers if kind is not Kind.NATIVE])
    world.play("adopt")
    _settle_down(world)
    _start(world, [name for name, kind in shape.consumers if kind is Kind.NATIVE])
    world.is_excused = world.has_fault = False
    return world


def _new_world(shape: Shape, kind: type[_World]) -> _World:
    """The world before its consumers have started."""
    topics, config = small_topics(shape.partition_count), shape.config
    if shape.converts_none:
        config = replace(config, consumer_migration_policy=MigrationPolicy.DOWNGRADE)
    return kind(
        shape=shape,
        budgets=dict(shape.budgets),
        topics=topics,
        upstream=Upstream(
            topics,
            config,
            shape.natives_disturb,
            shape.elects_newest,
            [(n + 2) * OFFSETS_APART for n in range(shape.partition_count)],
        ),
        here=GroupEngine(GROUP, shape.config),
        consumers={name: None for name, _kind in (*shape.consumers, *shape.beside)},
        kinds=dict((*shape.consumers, *shape.beside)),
    )


def _start(world: World | AdoptionWorld, names: Iterable[str] | None = None) -> None:
    everybody = [name for name, _kind in world.shape.consumers]
    for name in everybody if names is None else names:
        world.play(f"start {name}")
        _settle_down(world)


def _settle_down(world: World | AdoptionWorld, until_ms: int = START_MS) -> None:
    for _ in range(QUIET_MOVES_MAX):
        if world.is_at_rest() and world.now_ms >= until_ms:
            return
        world.play(free_moves(world)[0])
    raise BrokenPromiseError("the consumers do not come to rest")
