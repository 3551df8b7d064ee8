"""Carries out the effects of the shipped machine in a small world, and starts the next process."""

from collections.abc import Sequence

from coordinator.engine import GroupEngine
from coordinator.group.load import has_members, newest
from coordinator.interface.records import (
    ClassicMemberRemoval,
    DurableRecord,
    MemberMetadata,
    RemovalCause,
    is_tombstone,
)
from coordinator.interface.replies import Reply
from gateway.hosting.effects import (
    Ask,
    AskCoordinator,
    Awaited,
    Describe,
    Forget,
    Hold,
    Load,
    Look,
    Write,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.simulation.explorer.clients import miss
from tests.simulation.explorer.group_port import GroupPort, name_of_effect
from tests.simulation.explorer.numbers import GROUP
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.small_world import TIMED_OUT, World
from tests.simulation.explorer.strangers import fence, void_leases
from tests.simulation.messages import answer_message

LOSSES = (RemovalCause.GROUP_TAKEN, RemovalCause.GENERATION_WENT_BACK)
"""Why the gateway removes all members."""


def carry_out_at_once(world: World) -> bool:
    """Carry out one of the effects that take no time."""
    for effect in world.port.take_effects():
        name = name_of_effect(effect)
        if isinstance(effect, Ask) and isinstance(effect.message, HeartbeatRequest):
            taken = (*world.pending, *world.asking)
            name += "+" * sum(other.startswith(name) for other in taken)
        promise(name not in world.pending, f"there are two effects {name} at a time")
        world.pending[name] = effect
    if world.shape.takes_time:
        return False
    for name, effect in world.pending.items():
        if _is_fast(effect):
            carry_out(world, "answer", name)
            return True
    return False


def carry_out(world: World, how: str, name: str) -> None:
    effect = world.pending.pop(name)
    match effect:
        case AskCoordinator(message) | Ask(_, message):
            _carry_out_request(world, how, name, effect, message)
        case Write(batch):
            if how in ("answer", "fail-after"):
                write(world, batch.durable)
            if how == "answer":
                world.port.on_done(effect, None, world.now_ms)
            else:
                world.port.on_failed(effect, world.now_ms, is_uncertain=how != "fail")
        case _ if how == "fail":
            world.port.on_failed(effect, world.now_ms)
        case Look() if how == "late":
            world.asking[name], world.answers[name] = effect, world.look()
        case _:
            world.port.on_done(effect, _result_of(world, effect), world.now_ms)


def _result_of(world: World, effect: Awaited) -> object:
    match effect:
        case Look():
            return world.look()
        case Describe():
            return world.describe()
        case Load():
            engine = GroupEngine(GROUP, world.port.group.rules.config_of(GROUP))
            engine.load(world.log, now_ms=world.now_ms)
            return engine
        case Forget() | Hold():
            return None
        case _:
            raise TypeError(f"{effect} does not occur in a small world")


def _carry_out_request(world: World, how: str, name: str, effect: Awaited, message: Struct) -> None:
    match how:
        case "answer" | "late":
            world.asking[name] = effect
            arrive(world, message, name)
            if how == "answer" and name in world.answers:  # it was not parked
                world.port.on_done(world.asking.pop(name), world.answers.pop(name), world.now_ms)
        case "fail-answer":
            arrive(world, message, "")
            world.port.on_failed(effect, world.now_ms)
        case "delay":
            world.left_behind.append(message)
            world.port.on_failed(effect, world.now_ms)
        case _:
            world.port.on_failed(effect, world.now_ms)


def arrive(world: World, message: Struct, name: str) -> None:
    """Let the coordinator receive a message. It may park it. `name`: the effect that awaits the
    answer; empty if none does."""
    token = world.new_token()
    world.ask_cluster(world.read(token, message))
    _drop_strays(world)
    for position, (answered, reply) in enumerate(world.replies):
        if answered == token:
            del world.replies[position]
            _confirm(world, reply)
            if name:
                world.answers[name] = answer_message(reply)
            return
    if name:
        world.requesters[token] = name


def _confirm(world: World, reply: Reply) -> None:
    """The cluster has accepted a request of the anchor."""
    if not reply.error:
        for token, passing in world.passing.items():
            passing.is_confirmed |= world.port.is_confirming(token)


def _drop_strays(world: World) -> None:
    """Forget commits under the ids of anchors that never return."""
    present = (world.generation, *world.members_in_cluster)
    world.strays = [
        (sending, name)
        for sending, name in world.strays
        if sending.ids is None
        or (sending.ids.generation in present and sending.ids.member_id in present)
    ]


def write(world: World, records: Sequence[DurableRecord]) -> None:
    for record in records:
        if isinstance(record, MemberMetadata | ClassicMemberRemoval):
            if record.cause in TIMED_OUT:
                fence(world, record.member_id)
            elif record.cause in LOSSES:
                void_leases(world)  # again, if the log did not take it at first
    written = newest((*world.log, *records))
    world.log = tuple(record for record in written if not is_tombstone(record))


def restart(world: World, how: str) -> None:
    """The gateway is killed, and another process begins with its log. What it has `sent` to the
    coordinator will arrive, and what it has `written` is in the log."""
    for effect in world.pending.values():
        match effect:
            case AskCoordinator(message) | Ask(_, message) if how == "sent":
                world.left_behind.append(message)
            case Write(batch) if how == "written":
                write(world, batch.durable)
            case _:
                pass
    for table in (world.pending, world.answers, world.asking, world.requesters, world.passing):
        table.clear()
    world.overtaken.clear()
    for name in world.behind:
        if (sending := world.sendings.pop(name, None)) is not None and sending.route != "held":
            world.strays.append((sending, name))
        if name in world.asked:
            miss(world, name)
    if has_members(world.log):
        for consumer in world.consumers.values():
            if consumer is not None:
                consumer.has_lost_group = False  # what only the killed process knew (DEV D36)
    world.runs += 1
    world.port = GroupPort.start(world.shape, world.runs, world.topics, forwards=world.forwards)
    world.port.resume(world.log, world.new_protocol, world.now_ms)


def _is_fast(effect: Awaited) -> bool:
    """Whether the effect takes no time in a world that is not slow."""
    match effect:
        case Look() | Load() | Forget():
            return True
        case AskCoordinator(HeartbeatRequest()):
            return True
        case _:
            return False
