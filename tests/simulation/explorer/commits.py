"""The commits of a small world's consumers, on their way to the cluster and when they arrive."""

from dataclasses import replace

from coordinator.interface.events import OffsetCommitReceived
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.small_consumers import MakeCommit
from tests.simulation.explorer.small_world import Sending, World


def commit(world: World, name: str) -> None:
    consumer = world.consumer(name)
    offsets = {number: offset + 1 for number, offset in world.positions[name].items()}
    world.positions[name] = dict(offsets)
    make = MakeCommit(
        member_id=consumer.member_id,
        epoch=consumer.epoch,
        numbers=tuple(offsets),
        instance_id=getattr(consumer, "instance_id", None),
    )
    sending = world.sendings[name] = Sending(make, offsets, world.new_token())
    if name in world.behind:
        world.port.commit(sending.token, make, world.connection(name), world.now_ms)
    else:
        sending.route = "relayed"


def store(world: World, name: str, how: str) -> None:
    sending = world.sendings[name]
    is_own = sending.route == "relayed"
    if how == "lose-stray":
        world.strays.append((replace(sending), name))
        code = None
    else:
        code = store_in_cluster(world, name, sending)
        sending.is_stored = how == "store" and not code
        code = code if how == "store" else None
    if is_own:
        lost = ErrorCode.COORDINATOR_NOT_AVAILABLE
        on_committed(world, name, sending, lost if code is None else code)
        return
    sending.route = "held"
    world.port.on_stored(sending.token, code, world.now_ms)
    if code and sending.ids is not None:
        promise(
            world.has_fault or not world.port.is_moving,  # otherwise it is sent again
            f"a commit of {name} under the anchor's ids gets {ErrorCode(code).name}",
        )


def store_in_cluster(world: World, name: str, sending: Sending) -> int:
    token, ids = world.new_token(), sending.ids
    commit = sending.make(token, world.topics)
    if ids is not None:
        commit = OffsetCommitReceived(
            token=token,
            version=commit.version,
            member_id=ids.member_id,
            instance_id=ids.instance_id or None,
            epoch=ids.generation,
            partitions=commit.partitions,
            topic_names=commit.topic_names,
        )
    before = list(world.offsets)
    code = world.check_in_cluster(commit)
    if not code:
        for number, offset in sending.offsets.items():
            world.offsets[number] = offset
            promise(offset >= before[number], f"the offset of {number} goes back")
            for other, positions in world.positions.items():
                if other != name and world.owns(world.consumer(other), number):
                    promise(
                        positions.get(number, offset) >= offset,
                        f"{other} began to read {number} before the commit of another was stored",
                    )
    return code


def on_committed(world: World, name: str, sending: Sending, code: int) -> None:
    del world.sendings[name]
    if not code and sending.is_stored:
        for number, offset in sending.offsets.items():
            world.acknowledged[number] = max(offset, world.acknowledged.get(number, 0))
    elif name in world.behind:
        promise(world.is_excused, f"a commit of {name} gets {ErrorCode(code).name}")
