"""Makes moves in a small world, and delivers their results to all parties."""

from coordinator.interface.errors import GroupError
from coordinator.interface.replies import Reply
from gateway.hosting.answers import RefusalReason, code_for
from gateway.hosting.calls import Forwarded
from gateway.requests.forwarding import shown_to_member
from gateway.requests.member_apis import why_withheld
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.carrying_out import arrive, carry_out, carry_out_at_once, restart
from tests.simulation.explorer.clients import close, end, hear, miss, send, start_process
from tests.simulation.explorer.commits import commit, on_committed, store, store_in_cluster
from tests.simulation.explorer.numbers import GROUP, is_anchor
from tests.simulation.explorer.prices import is_fault
from tests.simulation.explorer.promises import BrokenPromiseError, promise
from tests.simulation.explorer.replies import grants
from tests.simulation.explorer.small_world import Move, Passing, World
from tests.simulation.explorer.strangers import (
    fence,
    intrude,
    keep_intruder,
    may_be_taken,
    remove,
    void_leases,
)
from tests.simulation.intruder import INTRUDER
from tests.simulation.messages import VERSION, answer_message, request_message

PAUSE_MS = 12_000
"""The length of a pause: longer than a session."""


def _pass_time(world: World, to_ms: int | None) -> None:
    assert to_ms is not None
    world.now_ms = max(world.now_ms, to_ms)
    keep_intruder(world)
    world.record_answers(world.upstream.pass_time(world.topics, world.now_ms))
    if not world.shape.takes_time:  # otherwise the age of the latest look tells states apart
        world.port.refresh(world.look(), world.now_ms)


def play(world: World, move: Move) -> None:
    """Make a move. Raises BrokenPromiseError."""
    verb, _, what = move.partition(" ")
    world.is_excused |= is_fault(move) or verb == "release"
    world.has_fault |= is_fault(move)
    if is_fault(move) or verb in ("adopt", "release"):
        world.unowned_ms = dict.fromkeys(world.unowned_ms, world.now_ms)
    try:
        _play(world, verb, what)
        _settle(world)
    except BrokenPromiseError:
        raise
    except Exception as error:
        raise BrokenPromiseError(f"something fails: {error!r}") from error
    _record_owners(world)


def _play(world: World, verb: str, what: str) -> None:  # one case for each move
    match verb:
        case "send":
            send(world, what)
        case "lose-answer" | "late-answer":
            send(world, what, fate=verb)
        case "lose":
            world.port.abandon(world.asked[what], world.now_ms)
            del world.passing[world.asked[what]]
            miss(world, what)
        case "start" | "return":
            kind = world.kinds[what] = world.restarts_as.pop(what, world.kinds[what])
            world.consumers[what] = start_process(world, what, kind)
        case "crash":
            end(world, what)
        case "leave" | "switch":
            close(world, what, comes_back=verb == "switch")
        case "hang-up":
            world.passing[world.asked.pop(what)].is_late = True
            world.connections[what] = world.connections.get(what, 0) + 1
            world.consumer(what).miss(world.now_ms)
        case "relay":
            world.ask_cluster(world.passing[world.overtaken.pop(int(what))].event)
        case "commit":
            commit(world, what)
        case "store" | "lose-stored" | "lose-stray":
            store(world, what, verb)
        case "land":
            sending, name = world.strays.pop(int(what))
            store_in_cluster(world, name, sending)
        case "adopt":
            world.port.adopt(world.now_ms)
        case "release":
            world.port.release(world.new_protocol, world.now_ms)
        case "tick":
            world.port.pass_time(world.now_ms)
            promise(not world.is_time_up(), "the machine waits for a time that has passed")
        case "wait" | "slow":
            _pass_time(world, world.next_ms())
        case "sleep":
            _pass_time(world, world.next_ms(after_ms=world.now_ms))
        case "pause":
            _pass_time(world, world.now_ms + PAUSE_MS)
        case "arrive":
            arrive(world, world.left_behind.pop(int(what)), "")
        case "hear" if what in world.consumers:
            passing = world.passing.pop(token := world.asked[what])
            assert passing.reply is not None
            hear(world, what, token, passing.reply)
        case "hear":
            world.port.on_done(world.asking.pop(what), world.answers.pop(what), world.now_ms)
        case "intrude":
            intrude(world)
        case "remove":
            remove(world, lambda member: is_anchor(member.member_id))
        case "withdraw":
            remove(world, lambda member: member.client_id == INTRUDER)
        case "restart":
            restart(world, what)
        case "reconfigure":
            world.forwards = not world.forwards
            restart(world, "")
        case _:
            carry_out(world, verb, what)


def _settle(world: World) -> None:
    """Deliver all answers, relay what the cluster has to answer, and carry out what takes no
    time."""
    while _hear_upstream(world) or _hear_gateway(world) or carry_out_at_once(world):
        pass


def _record_owners(world: World) -> None:
    if not world.shape.moves_group:
        return
    running = [consumer for consumer in world.consumers.values() if consumer is not None]
    for number in range(world.shape.partition_count):
        if not running or any(world.owns(consumer, number) for consumer in running):
            world.unowned_ms.pop(number, None)
        else:
            world.unowned_ms.setdefault(number, world.now_ms)


def _hear_upstream(world: World) -> bool:
    is_news = bool(world.replies or world.timed_out)
    while world.timed_out:
        fence(world, world.timed_out.pop())
    replies, world.replies = world.replies, []
    for token, reply in replies:
        if (effect_name := world.requesters.pop(token, None)) is not None:
            world.answers[effect_name] = answer_message(reply)
        elif (passing := world.passing.pop(token, None)) is not None:
            connection = world.connection(passing.name)
            world.port.on_relayed(passing.name, connection, passing.event, reply, world.now_ms)
            _answer_consumer(world, passing, _mask(world, passing, reply))
        else:
            name = next((n for n, asked in world.asked.items() if asked == token), None)
            if name is not None:
                hear(world, name, token, reply)
    return is_news


def _mask(world: World, passing: Passing, reply: Reply) -> Reply:
    """The reply that the gateway passes on, by the rules of `gateway/requests`."""
    message = request_message(passing.event, GROUP)
    answer = shown_to_member(message, VERSION, answer_message(reply))
    code = ErrorCode(getattr(answer, "error_code", 0))
    cause = why_withheld(answer, is_moving=world.port.is_moving)
    is_forwarded = cause is RefusalReason.HOLDER_CHANGED and world.port.is_forwarded(
        world.look(), world.now_ms
    )
    if cause is not None and not is_forwarded:
        code = code_for(cause, passing.api)
    return reply if code == reply.error else passing.event.refuse(GroupError(code, ""))


def _hear_gateway(world: World) -> bool:
    for _loss in world.port.take_losses():
        promise(may_be_taken(world), "the group is given up though nobody else has it")
        void_leases(world)
    answers = world.port.take_answers(world.now_ms)
    committers = {sending.token: name for name, sending in world.sendings.items()}
    for token, answer in answers:
        name = committers.get(token)
        match answer:
            case Forwarded() if name is not None:
                world.sendings[name].route = "relayed"
            case Forwarded() if world.has_intruder:  # it would join as well
                passing = world.passing.pop(token)
                refusal = GroupError(ErrorCode.UNKNOWN_MEMBER_ID, "")
                _answer_consumer(world, passing, passing.event.refuse(refusal))
            case Forwarded():
                passing = world.passing[token]
                passing.is_relayed = True
                if passing.is_late and _has_newer(world, passing):
                    world.overtaken.append(token)
                else:
                    world.ask_cluster(passing.event)
            case int(code):
                if name is not None:
                    on_committed(world, name, world.sendings[name], code)
            case None:
                del world.passing[token]
            case reply:
                _answer_consumer(world, world.passing.pop(token), reply)
    for name, sending in world.sendings.items():
        if name in world.behind and sending.route == "held":
            sending.route, sending.ids = world.port.store_under(sending.token)
    return bool(answers)


def _answer_consumer(world: World, passing: Passing, reply: Reply) -> None:
    name, token = passing.name, passing.event.token
    if not (passing.is_relayed or world.port.is_moving) and grants(reply):
        promise(passing.is_confirmed, f"{name} gets partitions from an anchor in doubt")
    if passing.is_of_lost_group and not world.port.is_loss_postponed:
        promise(reply.error, f"{name} remains a member, though another party had the group")
    match passing.fate:
        case "lose-answer":
            miss(world, name)
        case "late-answer":
            passing.reply = reply
            world.passing[token] = passing
        case _:
            hear(world, name, token, reply)


def _has_newer(world: World, late: Passing) -> bool:
    """Whether the gateway holds a newer request of the same consumer. Relayed at the same time
    on two connections, they may arrive in either order; otherwise the older one is ahead."""
    return any(
        passing.name == late.name and passing is not late for passing in world.passing.values()
    )
