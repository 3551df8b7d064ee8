"""What must hold in every state of a small world."""

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.topics import Partition
from gateway.hosting.states import LogPhase
from tests.simulation.explorer import moving_moves
from tests.simulation.explorer.moving_world import MovingWorld
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.small_consumers import TOPIC_ID, Consumer
from tests.simulation.explorer.small_world import World
from tests.simulation.invariants import BrokenInvariantError, check_group


def check(world: World | MovingWorld) -> None:
    """Raises BrokenPromiseError, or BrokenInvariantError for the state of the engine."""
    if isinstance(world, MovingWorld):
        moving_moves.check(world)
        return
    owners = _check_owners(world)
    for number, offset in world.acknowledged.items():
        stored = world.cluster.offsets[number]
        promise(stored >= offset, f"{offset - stored} records of {number} are lost after a commit")
    engine = world.machine.engine
    if engine.phase in (LogPhase.READY, LogPhase.WRITING):
        try:
            check_group(engine.core.state, time_ends_commits=False)
        except BrokenInvariantError as broken:
            promise(False, broken)
        for number, owner in owners.items():
            _check_granted(world, owner, number)


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
    group = world.machine.engine.core.state.group
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
