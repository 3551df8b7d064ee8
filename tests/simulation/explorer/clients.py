"""The requests of a small world's consumers, and what they make of the answers."""

from dataclasses import replace
from uuid import UUID

from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.replies import Reply
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import BY_MEMBERS, GroupApi
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.computing_consumer import ComputingConsumer
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.small_consumers import (
    ClassicConsumer,
    Consumer,
    Kind,
    positions_of,
    start,
)
from tests.simulation.explorer.small_world import Passing, World


def start_process(world: World, name: str, kind: Kind) -> Consumer:
    if kind is Kind.NATIVE and world.shape.config.client_side_assignors:
        return ComputingConsumer(name=name, beat_due_ms=world.now_ms)
    return start(name, kind, world.topics, world.now_ms, is_static=world.shape.are_static)


def close(world: World, name: str, *, comes_back: bool) -> None:
    if comes_back:
        is_native = world.kinds[name] is Kind.NATIVE
        world.restarts_as[name] = world.shape.classic if is_native else Kind.NATIVE
    world.consumer(name).close(world.now_ms)
    world.positions.pop(name, None)


def send(world: World, name: str, fate: str = "") -> None:
    consumer = world.consumer(name)
    if consumer.is_closing and not consumer.member_id:
        end(world, name)
        return
    token = world.new_token()
    api, event = consumer.ask(token, UUID(int=token), world.now_ms)
    if isinstance(consumer, ClassicConsumer) and consumer.joins_twice:
        consumer.joins_twice = False
        assert isinstance(event, JoinGroupReceived)
        token = world.new_token()
        world.repeated[event.token] = replace(event, token=token, fresh_id=UUID(int=token))
    world.asked[name] = token
    is_of_lost_group = consumer.has_lost_group and api in BY_MEMBERS
    _pass_on(world, Passing(name, api, event, fate=fate, is_of_lost_group=is_of_lost_group))


def _pass_on(world: World, passing: Passing) -> None:
    name, event = passing.name, passing.event
    if name in world.behind:
        world.passing[event.token] = passing
        world.port.request(passing.api, event, world.connection(name), world.now_ms)
    else:
        world.ask_cluster(event)


def hear(world: World, name: str, token: Token, reply: Reply) -> None:
    if (again := world.repeated.pop(token, None)) is not None:
        _pass_on(world, Passing(name, GroupApi.JOIN, again))
    if world.asked.get(name) != token:
        return
    del world.asked[name]
    consumer = world.consumer(name)
    before = set(consumer.claims)
    consumer.hear(reply, world.now_ms)
    if name in world.behind:
        promise(
            not consumer.died_of or world.has_strangers,
            f"{name} ends because of {consumer.died_of}",
        )
        error = reply.error
        promise(
            world.is_excused or not error or error == ErrorCode.MEMBER_ID_REQUIRED,
            f"{name} sees {ErrorCode(error).name}, though nothing has happened",
        )
        promise(
            world.is_excused or before <= consumer.claims,
            f"{name} gives up partitions, though nothing has happened",
        )
    if consumer.is_over:
        end(world, name)
    _take_positions(world, name)


def miss(world: World, name: str) -> None:
    """There is no answer to the consumer's request."""
    world.asked.pop(name, None)
    consumer = world.consumer(name)
    consumer.miss(world.now_ms)
    if consumer.is_over:
        end(world, name)


def _take_positions(world: World, name: str) -> None:
    before = world.positions.pop(name, {})
    if positions := positions_of(world.consumers[name], before, world.offsets):
        world.positions[name] = positions


def end(world: World, name: str) -> None:
    """The process is gone, and so are its connections."""
    world.consumers[name] = None
    world.positions.pop(name, None)
    world.asked.pop(name, None)
    for token, passing in list(world.passing.items()):
        if passing.name == name:
            del world.passing[token]
            if token in world.overtaken:
                world.overtaken.remove(token)
            world.port.abandon(token, world.now_ms)
    if (sending := world.sendings.pop(name, None)) is not None:
        if sending.route != "held":
            world.strays.append((sending, name))
        world.port.abandon(sending.token, world.now_ms)
