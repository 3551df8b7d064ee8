"""What must hold in every state of a small world."""

from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.topics import Partition
from gateway.hosting.states import LogPhase
from tests.simulation.explorer.numbers import is_anchor
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.small_consumers import TOPIC_ID, Consumer
from tests.simulation.explorer.small_world import World
from tests.simulation.invariants import BrokenInvariantError, check_group


def check(world: World) -> None:
    """Raises BrokenPromiseError."""
    owners = _check_owners(world)
    for number, offset in world.acknowledged.items():
        stored = world.offsets[number]
        promise(stored >= offset, f"{offset - stored} records of {number} are lost after a commit")
    _check_one_coordinator(world)
    for number, since_ms in world.unowned_ms.items():
        unowned_ms = world.now_ms - since_ms
        promise(unowned_ms <= world.unowned_max_ms, f"{number} has no owner for {unowned_ms} ms")
    _check_group(world.upstream.engine)
    if world.port.group.engine.phase in (LogPhase.READY, LogPhase.WRITING):
        _check_group(world.here)
        if not world.shape.moves_group:
            for number, owner in owners.items():
                _check_granted(world, owner, number)


def _check_group(engine: GroupEngine) -> None:
    try:
        check_group(engine.state, time_ends_commits=False)
    except BrokenInvariantError as broken:
        promise(False, broken)


def _check_owners(world: World) -> dict[int, Consumer]:
    owners: dict[int, Consumer] = {}
    for consumer in world.consumers.values():
        if consumer is None:
            continue
        for number in range(world.shape.partition_count):
            if world.owns(consumer, number):
                other = owners.setdefault(number, consumer)
                promise(other is consumer, f"{other.name} and {consumer.name} own {number}")
    return owners


def _check_granted(world: World, owner: Consumer, number: int) -> None:
    """The group holds the partition for the member that owns it."""
    group = world.here.state.group
    is_member = group is not None and owner.member_id in group.members
    promise(
        is_member or world.has_strangers,
        f"{owner.name} owns {number}, and the group does not know its member",
    )
    if isinstance(group, ConsumerGroup) and is_member:
        holder = group.holders.get(Partition(TOPIC_ID, number))
        promise(
            holder == owner.member_id,
            f"{owner.name} owns {number}, which the group holds for {holder!r}",
        )


def _check_one_coordinator(world: World) -> None:
    """No member is in the group here while the cluster's group has members of its own, unless an
    intruder has just come."""
    here, there = world.here.state.group, world.upstream.state
    if here is None or not here.members or there is None or world.has_intruder:
        return
    promise(
        isinstance(there, ClassicGroup) and all(map(is_anchor, there.members)),
        "the group has members here and in the cluster",
    )
