"""What can happen next in a world.

A move that is a fault, or that somebody decides to make, has a price: it uses up a budget. All
others are free, and go on until the world is at rest.
"""

from collections.abc import Iterator

from gateway.hosting.effects import AskCoordinator, Effect, Load, Look, Write
from kafka_codecs.join_group import JoinGroupRequest
from tests.simulation.explorer import moving_moves
from tests.simulation.explorer.moving_world import MovingWorld
from tests.simulation.explorer.small_consumers import Consumer
from tests.simulation.explorer.small_world import Move, World

_PRICES = {
    **{verb: verb for verb in ("start", "crash", "leave", "switch", "commit", "lose", "fail")},
    **{verb: verb for verb in ("late", "slow", "restart", "remove", "intrude")},
    **{verb: verb for verb in ("adopt", "release", "hang-up", "reconfigure", "pause")},
    **dict.fromkeys(("lose-answer", "lose-stored", "lose-stray", "land"), "lose"),
    "late-answer": "late",
    **dict.fromkeys(("fail-answer", "fail-unsure", "fail-after"), "fail"),
    "withdraw": "intrude",
}
BUDGETS = tuple(dict.fromkeys(_PRICES.values()))
"""The names of the budgets."""


def price(move: Move) -> str:
    """The budget that a move uses up; empty for a free one."""
    return _PRICES.get(move.partition(" ")[0], "")


def moves_of(world: World | MovingWorld) -> tuple[list[Move], bool]:
    """All that can happen now, and whether a move is left out because its budget has been used up.
    What follows that one is unknown."""
    moves, is_cut = free_moves(world), False
    for move in _paid_moves(world):
        budget = price(move)
        if world.budgets.get(budget):
            moves.append(move)
        else:
            is_cut |= bool(world.shape.budgets.get(budget))
    return moves, is_cut


def make(world: World | MovingWorld, move: Move) -> None:
    """Pay for a move, and play it. Raises BrokenPromiseError."""
    if paid := price(move):
        world.budgets[paid] -= 1
    world.play(move)


# -- free ------------------------------------------------------------------------------------------


def free_moves(world: World | MovingWorld) -> list[Move]:
    """The moves that take neither a decision nor a failure."""
    if isinstance(world, MovingWorld):
        return moving_moves.free_moves(world)
    moves = [f"answer {name}" for name in world.pending]
    moves += [f"deliver {name}" for name in world.under_way]
    moves += [f"arrive {number}" for number in range(len(world.left_behind))]
    moves += [f"store {name}" for name in world.storing()]
    moves += [f"probe {name}" for name in world.probing()]
    for name, consumer in world.consumers.items():
        question = world.questions.get(name)
        if question is not None:
            if question.call.answer is not None:
                moves.append(f"hear {name}")
        elif consumer is not None and world.may_ask(consumer):
            moves.append(f"send {name}")
        elif consumer is None and name in world.restarts_as:
            moves.append(f"return {name}")
    if world.is_time_up():
        moves.append("tick")
    elif world.may_wait() and not world.is_busy():
        moves.append("wait")
    return moves


# -- with a price ----------------------------------------------------------------------------------


def _paid_moves(world: World | MovingWorld) -> Iterator[Move]:
    if isinstance(world, MovingWorld):
        yield from moving_moves.paid_moves(world)
        return
    for name, consumer in world.consumers.items():
        if consumer is not None:
            yield from _moves_of_consumer(world, name, consumer)
        elif name not in world.restarts_as:
            yield f"start {name}"
    for name in world.storing():
        yield from (f"lose-stored {name}", f"lose-stray {name}")
    for name, effect in world.pending.items():
        yield from (f"{how} {name}" for how in _faults_of(effect))
    yield from _moves_around(world)


def _moves_of_consumer(world: World, name: str, consumer: Consumer) -> Iterator[Move]:
    yield f"crash {name}"
    if not consumer.is_closing:
        yield from (f"leave {name}", f"switch {name}")
    question = world.questions.get(name)
    if question is None and world.may_ask(consumer):
        yield from (f"lose-answer {name}", f"late-answer {name}")
    elif question is not None and not question.fate and question.call.answer is None:
        yield f"lose {name}"
    if name not in world.sendings and consumer.may_commit and consumer.claims:
        yield f"commit {name}"


def _faults_of(effect: Effect) -> tuple[str, ...]:
    match effect:
        case AskCoordinator():
            return ("late", "fail", "fail-answer")
        case Write():
            return ("fail", "fail-unsure", "fail-after")
        case Look():
            return ("late", "fail")
        case Load():
            return ("fail",)
        case _:
            return ()


def _moves_around(world: World) -> Iterator[Move]:
    """Of the cluster, the gateway, and time."""
    yield from (f"land {number}" for number in range(len(world.cluster.strays)))
    yield "restart"
    if "Write" in world.pending:
        yield "restart written"
    asked = world.pending.get("AskCoordinator")
    if isinstance(asked, AskCoordinator) and isinstance(asked.message, JoinGroupRequest):
        yield "restart sent"
    if world.cluster.has_stranger:
        yield "withdraw"
    else:
        yield "remove" if world.cluster.group.member_id else "intrude"
    if world.is_busy() and world.may_wait():
        yield "slow"
