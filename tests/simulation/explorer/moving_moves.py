"""What can happen next in a world of moves, and what must hold in each of its states."""

from collections.abc import Iterator

from coordinator.group.classic_group import ClassicGroup
from gateway.hosting.effects import Ask, AskCoordinator, Effect, Load, Look, Write
from gateway.hosting.states import LogPhase
from tests.simulation.explorer.moving_world import MovingWorld, is_anchor
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.small_consumers import Consumer
from tests.simulation.explorer.small_world import Move
from tests.simulation.invariants import BrokenInvariantError, check_group


def free_moves(world: MovingWorld) -> list[Move]:
    """The moves that take neither a decision nor a failure."""
    moves = [f"answer {name}" for name in world.pending if world.may_carry_out(name)]
    moves += [f"hear {asker}" for asker in world.answers]
    moves += [f"arrive {number}" for number in range(len(world.left_behind))]
    moves += [f"relay {number}" for number in range(len(world.overtaken))]
    moves += [f"store {name}" for name in world.storing()]
    moves += [
        f"send {name}"
        for name, consumer in world.consumers.items()
        if consumer is not None and world.may_ask(name, consumer)
    ]
    if world.is_time_up():
        moves.append("tick")
    elif world.may_wait() and not world.is_busy():
        moves.append("wait")
    return moves


def paid_moves(world: MovingWorld) -> Iterator[Move]:
    """The moves that use up a budget."""
    for name, consumer in world.consumers.items():
        if consumer is None:
            yield f"start {name}"
        else:
            yield from _moves_of_consumer(world, name, consumer)
    for name, sending in world.sendings.items():
        if sending.route in ("relayed", "guarded"):  # the other worlds lose answers to the hosted
            yield f"lose-stray {name}"
    for name in world.behind:
        passing = world.passing.get(world.asked.get(name, 0))
        if passing is not None and not passing.is_relayed:
            yield f"hang-up {name}"
    yield from (f"land {number}" for number in range(len(world.strays)))
    for name, effect in world.pending.items():
        yield from (f"{how} {name}" for how in _faults_of(effect))
    if world.may_adopt:
        yield "adopt"
    if world.may_release:
        yield "release"
    yield from _moves_of_process(world)
    if world.is_busy() and world.may_wait():
        yield "slow"


def _moves_of_process(world: MovingWorld) -> Iterator[Move]:
    yield "restart"
    if any(isinstance(effect, Ask | AskCoordinator) for effect in world.pending.values()):
        yield "restart sent"
    if any(isinstance(effect, Write) for effect in world.pending.values()):
        yield "restart written"
    yield "reconfigure"
    yield "pause"


def _moves_of_consumer(world: MovingWorld, name: str, consumer: Consumer) -> Iterator[Move]:
    yield f"crash {name}"
    if not consumer.is_closing and name not in world.asked:
        yield f"leave {name}"
    is_free = name not in world.sendings and name not in world.asked
    if is_free and consumer.may_commit and name in world.positions:
        yield f"commit {name}"


def _faults_of(effect: Effect) -> tuple[str, ...]:
    match effect:
        case Ask() | AskCoordinator():
            return ("fail", "fail-answer", "late")
        case Write():
            return ("fail", "fail-unsure")
        case Look() | Load():
            return ("fail",)
        case _:
            return ()


def check(world: MovingWorld) -> None:
    """Raises BrokenPromiseError."""
    owners: dict[int, str] = {}
    for name, consumer in world.consumers.items():
        if consumer is None:
            continue
        for number in range(world.shape.partition_count):
            if world.owns(consumer, number):
                other = owners.setdefault(number, name)
                promise(other == name, f"{other} and {name} own {number}")
    for number, offset in world.acknowledged.items():
        stored = world.offsets[number]
        promise(stored >= offset, f"{offset - stored} records of {number} are lost after a commit")
    _check_one_coordinator(world)
    for number, since_ms in world.unowned_ms.items():
        unowned_ms = world.now_ms - since_ms
        promise(unowned_ms <= world.unowned_max_ms, f"{number} has no owner for {unowned_ms} ms")
    engines = [world.upstream.engine]
    if world.port.group.engine.phase in (LogPhase.READY, LogPhase.WRITING):
        engines.append(world.here)
    for engine in engines:
        try:
            check_group(engine.state, time_ends_commits=False)
        except BrokenInvariantError as broken:
            promise(False, broken)


def _check_one_coordinator(world: MovingWorld) -> None:
    """No member is in the group here while the cluster's group has members of its own."""
    here, there = world.here.state.group, world.upstream.state
    if here is None or not here.members or there is None:
        return
    promise(
        isinstance(there, ClassicGroup) and all(map(is_anchor, there.members)),
        "the group has members here and in the cluster",
    )
