"""What can happen next in a world.

Free moves are made until the world is at rest.
"""

from collections.abc import Iterator

from gateway.hosting.effects import Ask, AskCoordinator, Effect, Load, Look, Write
from tests.simulation.explorer.playing import play
from tests.simulation.explorer.prices import price
from tests.simulation.explorer.small_consumers import Consumer
from tests.simulation.explorer.small_world import Move, World


def moves_of(world: World) -> tuple[list[Move], bool]:
    """All that can happen now, and whether a move is left out because its budget has been used up.
    What follows that one is unknown."""
    moves, is_cut = free_moves(world), False
    for move in paid_moves(world):
        budget = price(move)
        if world.budgets.get(budget):
            moves.append(move)
        else:
            is_cut |= bool(world.shape.budgets.get(budget))
    return moves, is_cut


def make(world: World, move: Move) -> None:
    """Pay for a move, and play it. Raises BrokenPromiseError."""
    if paid := price(move):
        world.budgets[paid] -= 1
    play(world, move)


def free_moves(world: World) -> list[Move]:
    """The moves that take neither a decision nor a failure."""
    moves = [f"answer {name}" for name in world.pending if world.may_carry_out(name)]
    moves += [f"hear {asker}" for asker in world.answers]
    moves += [f"arrive {number}" for number in range(len(world.left_behind))]
    moves += [f"relay {number}" for number in range(len(world.overtaken))]
    moves += [f"store {name}" for name in world.storing()]
    moves += [f"hear {call.name}" for call in world.passing.values() if call.reply is not None]
    for name, consumer in world.consumers.items():
        if consumer is not None and world.may_ask(name, consumer):
            moves.append(f"send {name}")
        elif consumer is None and name in world.restarts_as:
            moves.append(f"return {name}")
    if world.is_time_up():
        moves.append("tick")
    elif world.may_wait() and not world.is_busy():
        moves.append("wait")
    return moves


def paid_moves(world: World) -> Iterator[Move]:
    """The moves that use up a budget."""
    for name, consumer in world.consumers.items():
        if consumer is not None:
            yield from _moves_of_consumer(world, name, consumer)
        elif name not in world.restarts_as:
            yield f"start {name}"
    for name, sending in world.sendings.items():
        if sending.route == "hosted" and not world.shape.moves_group:
            yield from (f"lose-stored {name}", f"lose-stray {name}")
        elif sending.route in ("relayed", "guarded"):
            yield f"lose-stray {name}"
    yield from (f"land {number}" for number in range(len(world.strays)))
    for name, effect in world.pending.items():
        yield from (f"{how} {name}" for how in _faults_of(effect))
    if world.may_adopt:
        yield "adopt"
    if world.may_release:
        yield "release"
    yield from _moves_around(world)


def _moves_of_consumer(world: World, name: str, consumer: Consumer) -> Iterator[Move]:
    yield f"crash {name}"
    passing = world.passing.get(world.asked.get(name, 0))
    is_open = passing is not None and not passing.is_relayed and passing.reply is None
    if world.shape.moves_group:
        if not consumer.is_closing and name not in world.asked:
            yield f"leave {name}"
        if is_open:
            yield f"hang-up {name}"
    else:
        if not consumer.is_closing:
            yield from (f"leave {name}", f"switch {name}")
        if world.may_ask(name, consumer):
            yield from (f"lose-answer {name}", f"late-answer {name}")
        elif is_open:
            yield f"lose {name}"
    is_free = name not in world.sendings and name not in world.asked
    if is_free and consumer.may_commit and name in world.positions:
        yield f"commit {name}"


def _faults_of(effect: Effect) -> tuple[str, ...]:
    match effect:
        case Ask() | AskCoordinator():
            return ("late", "delay", "fail", "fail-answer")
        case Write():
            return ("fail", "fail-unsure", "fail-after")
        case Look():
            return ("late", "fail")
        case Load():
            return ("fail",)
        case _:
            return ()


def _moves_around(world: World) -> Iterator[Move]:
    """Moves of the gateway's process, of the cluster, and of time."""
    yield "restart"
    if any(isinstance(effect, Ask | AskCoordinator) for effect in world.pending.values()):
        yield "restart sent"
    if any(isinstance(effect, Write) for effect in world.pending.values()):
        yield "restart written"
    if world.shape.moves_group:
        yield from ("reconfigure", "pause")
        if world.may_sleep():
            yield "sleep"
    elif world.has_intruder:
        yield "withdraw"
    else:
        yield "remove" if world.members_in_cluster else "intrude"
    if world.is_busy() and world.may_wait():
        yield "slow"
