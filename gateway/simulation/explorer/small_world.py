"""A small world: the shipped hosting machine with its engine, a log, a cluster, and consumers.

Nothing happens by itself. `moves` lists what can happen next, and `play` makes one of it happen. A
move that is a fault, or that somebody decides to make, has a budget; all others have none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from coordinator.engine import GroupEngine
from coordinator.group.load import has_members, newest
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import OffsetCommitReceived, Request
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi, code_for
from gateway.hosting.calls import (
    Answer,
    Call,
    Commit,
    Commits,
    Failed,
    Forwarded,
    Outcome,
    Refused,
    Store,
)
from gateway.hosting.effects import (
    AskCoordinator,
    Effect,
    Forget,
    Load,
    Log,
    Look,
    Tell,
    TellNow,
    Write,
)
from gateway.hosting.group import HostedGroup, HostingRules
from gateway.hosting.identity import AnchorIds, Gateway
from gateway.hosting.inputs import (
    LOST,
    Asked,
    CoordinatorAnswered,
    CoordinatorFailed,
    Damage,
    Forgotten,
    Gone,
    Input,
    Loaded,
    LoadFailed,
    Looked,
    Probed,
    Resumed,
    Stored,
    TimePassed,
    WriteFailed,
    Written,
)
from gateway.hosting.log_health import LogHealth
from gateway.hosting.pauses import Pauses
from gateway.hosting.room import Room
from gateway.hosting.standing import NoAnswer, Standing, StandingRules
from gateway.hosting.states import Stage
from gateway.simulation.explorer.small_cluster import Cluster
from gateway.simulation.explorer.small_consumers import (
    SESSION_TIMEOUT_MS,
    TOPIC,
    TOPIC_ID,
    Consumer,
    Kind,
    shares_are_fair,
    small_topics,
    start,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode

GROUP = "orders-readers"
LOG_ID = "log-1"
START_MS = 1_600_000_000_000
FIRST_TOKEN = 1_000_000_000
OFFSETS_APART = 100_000_000
"""The committed offset of partition n begins at (n + 2) times this, so that the canonical form
knows an offset, and its partition, when it sees one."""
LINGER_MS = 3_000
QUIET_STEPS_MAX = 500
"""Moves until a new world is at rest."""

Move = str
"""Words: what happens, to what, and how."""

CONFIG = GroupConfig(
    classic_initial_rebalance_delay_ms=0,
    consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
    consumer_heartbeat_interval_ms=3_000,
    consumer_assignment_interval_ms=0,
    lost_commit_hold_ms=None,
    reconnect_timeout_ms=SESSION_TIMEOUT_MS,
)

_REPLIES: Mapping[GroupApi, type[Reply]] = {
    GroupApi.JOIN: JoinGroupReply,
    GroupApi.SYNC: SyncGroupReply,
    GroupApi.HEARTBEAT: HeartbeatReply,
    GroupApi.LEAVE: LeaveGroupReply,
    GroupApi.CONSUMER_JOIN: ConsumerHeartbeatReply,
    GroupApi.CONSUMER_HEARTBEAT: ConsumerHeartbeatReply,
    GroupApi.CONSUMER_LEAVE: ConsumerHeartbeatReply,
}
_ACHIEVED = (Written, Forgotten, Looked, Loaded)


class BrokenPromiseError(AssertionError):
    """Something that must never happen has happened."""


def promise(holds: object, *why: object) -> None:
    """Raises BrokenPromiseError unless it holds."""
    if not holds:
        raise BrokenPromiseError(" ".join(map(str, why)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a world begins with, and how often what may happen in it.

    The budgets: `start`, `crash`, `leave` and `switch` (to the other protocol) of consumers;
    `commit`; `lose` (a request's answer, and with it perhaps the connection), `late` (an answer, to
    a consumer or to the machine), `fail` (of the log or the coordinator), `slow` (time passes while
    somebody works), `restart` of the gateway, `remove` (the anchor, by an admin) and `intrude` (a
    consumer joins in the cluster itself).
    """

    name: str
    what: str
    consumers: tuple[tuple[str, Kind], ...]
    budgets: Mapping[str, int]
    partition_count: int = 2
    classic: Kind = Kind.COOPERATIVE
    """What a native consumer switches to. All classic consumers of a world are of one kind, since
    the others have no protocol in common with them."""
    begins_at_rest: bool = False
    """Whether the consumers have started, and each has its share."""
    config: GroupConfig = CONFIG


@dataclass(slots=True, eq=False)
class Question:
    """A consumer's request about the group, and what becomes of its answer."""

    call: Call
    fate: str = ""
    is_confirmed: bool = False
    """Whether the cluster has confirmed the anchor since the engine decided."""


@dataclass(slots=True, eq=False)
class Sending:
    """A consumer's commit."""

    call: Commits
    offsets: dict[int, int]
    codes: frozenset[int] = frozenset()
    """The cluster's latest answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeCommit:
    """Makes the engine's event of a commit."""

    member_id: str
    epoch: int
    numbers: tuple[int, ...]

    def __call__(self, token: Token, topics: Topics) -> OffsetCommitReceived:
        return OffsetCommitReceived(
            token=token,
            version=9,
            member_id=self.member_id,
            instance_id=None,
            epoch=self.epoch,
            topic_names=frozenset((TOPIC,)),
            partitions=topics.partitions([(TOPIC, self.numbers)]),
        )


@dataclass(slots=True, eq=False)
class World:
    """One state of the world."""

    shape: Shape
    budgets: dict[str, int]
    topics: Topics
    cluster: Cluster
    machine: HostedGroup
    now_ms: int = START_MS
    runs: int = 1
    next_token: Token = FIRST_TOKEN
    consumers: dict[str, Consumer | None] = field(default_factory=dict)
    """By name; None is not running."""
    kinds: dict[str, Kind] = field(default_factory=dict)
    restarts_as: dict[str, Kind] = field(default_factory=dict)
    """The consumers that are closing in order to come back."""
    positions: dict[str, dict[int, int]] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    sendings: dict[str, Sending] = field(default_factory=dict)
    log: tuple[DurableRecord, ...] = ()
    """The newest record of each key: a log may be compacted at any time."""
    pending: dict[str, Effect] = field(default_factory=dict)
    """The machine's effects that nobody has carried out."""
    under_way: dict[str, Input] = field(default_factory=dict)
    """Answers to effects that have not arrived."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The offsets that consumers know to be committed."""
    has_strangers: bool = False

    # -- what can happen -------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        """All that can happen now; what has used up its budget is left out."""
        found = self.free_moves()
        found += [move for move in self._paid_moves() if self.budgets.get(price(move), 0)]
        return found

    def cut_moves(self) -> int:
        """How many moves are left out because of their budget."""
        return sum(not self.budgets.get(price(move), 0) for move in self._paid_moves())

    def free_moves(self) -> list[Move]:
        """What happens even if nobody decides anything and nothing fails."""
        moves = [f"answer {name}" for name in self.pending]
        moves += [f"deliver {name}" for name in self.under_way]
        moves += [f"store {name}" for name in self._storing()]
        moves += [f"probe {name}" for name in self._probing()]
        for name, consumer in self.consumers.items():
            question = self.questions.get(name)
            if question is not None:
                if question.call.answer is not None:
                    moves.append(f"hear {name}")
            elif consumer is not None and self._may_ask(consumer):
                moves.append(f"send {name}")
            elif consumer is None and name in self.restarts_as:
                moves.append(f"return {name}")
        if self._is_time_up():
            moves.append("tick")
        elif self._next_ms() is not None and not (self._is_somebody_due() or self._works()):
            moves.append("wait")
        return moves

    def _paid_moves(self) -> list[Move]:
        moves: list[Move] = []
        for name, consumer in self.consumers.items():
            if consumer is None:
                if name not in self.restarts_as:
                    moves.append(f"start {name}")
                continue
            moves.append(f"crash {name}")
            if not consumer.is_closing:
                moves.append(f"leave {name}")
                moves.append(f"switch {name}")
            question = self.questions.get(name)
            if question is None and self._may_ask(consumer):
                moves += (f"lose-answer {name}", f"late-answer {name}")
            elif question is not None and not question.fate and question.call.answer is None:
                moves.append(f"lose {name}")
            if name not in self.sendings and consumer.may_commit and consumer.claims:
                moves.append(f"commit {name}")
        for name in self._storing():
            moves += (f"lose-stored {name}", f"lose-stray {name}")
        moves += [f"land {number}" for number in range(len(self.cluster.strays))]
        for name, effect in self.pending.items():
            match effect:
                case AskCoordinator():
                    moves += (f"late {name}", f"fail {name}", f"fail-answer {name}")
                case Write():
                    moves += (f"fail {name}", f"fail-unsure {name}", f"fail-after {name}")
                case Look():
                    moves += (f"late {name}", f"fail {name}")
                case Load():
                    moves.append(f"fail {name}")
        moves.append("restart")
        if "Write" in self.pending:
            moves.append("restart written")
        if self.cluster.has_stranger:
            moves.append("withdraw")
        elif self.cluster.member_id:
            moves.append("remove")
        else:
            moves.append("intrude")
        if not self._is_time_up() and self._works() and not self._is_somebody_due():
            if self._next_ms() is not None:
                moves.append("slow")
        return moves

    def _may_ask(self, consumer: Consumer) -> bool:
        return consumer.has_something_to_say() or consumer.beat_due_ms <= self.now_ms

    def _storing(self) -> list[str]:
        sendings = self.sendings.items()
        return [name for name, each in sendings if isinstance(each.call.errand, Store)]

    def _probing(self) -> list[str]:
        return [
            name
            for name, each in self.sendings.items()
            if each.call.errand is not None and not isinstance(each.call.errand, Store)
        ]

    # -- time ------------------------------------------------------------------------------------

    def _is_time_up(self) -> bool:
        at_ms = self.machine.next_ms()
        return at_ms is not None and at_ms <= self.now_ms

    def _is_somebody_due(self) -> bool:
        """Whether a consumer has to speak before time passes."""
        return any(
            consumer is not None
            and name not in self.questions
            and consumer.beat_due_ms <= self.now_ms
            for name, consumer in self.consumers.items()
        ) or bool(self.restarts_as.keys() & {n for n, c in self.consumers.items() if c is None})

    def _works(self) -> bool:
        """Whether somebody is about to answer."""
        return bool(
            self.pending
            or self.under_way
            or self._storing()
            or self._probing()
            or any(each.call.answer is not None for each in self.questions.values())
        )

    def _next_ms(self) -> int | None:
        times = [self.machine.next_ms(), self.cluster.expires_ms]
        times += [
            consumer.beat_due_ms
            for name, consumer in self.consumers.items()
            if consumer is not None and name not in self.questions
        ]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _wait(self) -> None:
        next_ms = self._next_ms()
        assert next_ms is not None
        self.now_ms = max(self.now_ms, next_ms)
        if self.cluster.expires_ms is not None and self.cluster.expires_ms <= self.now_ms:
            self.cluster.remove_member()

    # -- making it happen ------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        """Make it happen. Raises BrokenPromiseError."""
        paid = price(move)
        if paid:
            self.budgets[paid] -= 1
        verb, _, what = move.partition(" ")
        match verb:
            case "send" | "lose-answer" | "late-answer":
                self._ask(what, "" if verb == "send" else verb)
            case "hear":
                self._hear(what)
            case "lose":
                self._lose(what)
            case "commit":
                self._commit(what)
            case "start" | "return":
                self.kinds[what] = self.restarts_as.pop(what, self.kinds[what])
                self.consumers[what] = start(what, self.kinds[what], self.now_ms)
            case "crash":
                self._end(what)
            case "leave":
                self._consumer(what).close(self.now_ms)
            case "switch":
                is_native = self.kinds[what] is Kind.NATIVE
                self.restarts_as[what] = self.shape.classic if is_native else Kind.NATIVE
                self._consumer(what).close(self.now_ms)
            case "store" | "lose-stored" | "lose-stray":
                self._store(what, verb)
            case "probe":
                self._feed(Probed(self.sendings[what].call, is_there=True))
            case "land":
                ids, offsets = self.cluster.strays.pop(int(what))
                self._commit_in_cluster("", ids, offsets)
            case "tick":
                self._feed(TimePassed())
            case "wait" | "slow":
                self._wait()
            case "restart":
                self._restart(was_written=bool(what))
            case "remove":
                self.cluster.remove_member()
            case "intrude":
                self.cluster.admit_stranger()
                self.has_strangers = True
            case "withdraw":
                self.cluster.remove_member()
            case _:
                self._carry_out(verb, what)
        self._settle()

    def _consumer(self, name: str) -> Consumer:
        consumer = self.consumers[name]
        assert consumer is not None, f"{name} is not running"
        return consumer

    def _feed(self, event: Input) -> None:
        try:
            effects = self.machine.handle(event, self.now_ms)
        except Exception as error:
            raise BrokenPromiseError(f"the machine fails: {error!r}") from error
        self._note(effects)

    def _note(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Log(error=error):
                    promise(error is None, "the engine fails:", repr(error))
                case Tell() | TellNow():
                    pass
                case _:
                    name = type(effect).__name__
                    promise(name not in self.pending, f"there are two effects {name} at a time")
                    self.pending[name] = effect

    def _settle(self) -> None:
        """Let the consumers hear what has been answered."""
        for name, question in list(self.questions.items()):
            if question.call.stage is not Stage.CONFIRMING and question.call.answer is None:
                question.is_confirmed = False
            if question.call.answer is not None:
                match question.fate:
                    case "":
                        self._hear(name)
                    case "lose-answer":
                        del self.questions[name]
                        self._consumer(name).miss(self.now_ms)
                        self._bury(name)
        for name, sending in list(self.sendings.items()):
            if sending.call.answer is not None:
                self._committed(name, sending)

    # -- a consumer ------------------------------------------------------------------------------

    def _ask(self, name: str, fate: str) -> None:
        consumer = self._consumer(name)
        if consumer.is_closing and not consumer.member_id:
            self._end(name)
            return
        token = self._token()
        api, event = consumer.ask(token, UUID(int=token), self.now_ms)
        call = Call(
            api=api, event=event, token=token, knows_topics=True, is_at_coordinator=True
        )
        self.questions[name] = Question(call, fate)
        self._feed(Asked(call))

    def _token(self) -> Token:
        self.next_token += 1
        return self.next_token

    def _hear(self, name: str) -> None:
        question = self.questions.pop(name)
        call, consumer = question.call, self._consumer(name)
        assert call.answer is not None
        reply = reply_to(call.api, call.answer)
        if _grants(reply):
            promise(question.is_confirmed, f"{name} gets partitions from an anchor in doubt")
        consumer.hear(reply, self.topics, self.now_ms)
        promise(
            not consumer.died_of or self.has_strangers,
            f"{name} ends because of {consumer.died_of}, an answer to {call.api.value}",
        )
        self._bury(name)
        self._take_positions(name)

    def _bury(self, name: str) -> None:
        consumer = self._consumer(name)
        if consumer.is_over:
            self._end(name)

    def _take_positions(self, name: str) -> None:
        """Read from the committed offset on."""
        consumer = self.consumers[name]
        before = self.positions.pop(name, {})
        if consumer is not None and consumer.claims:
            self.positions[name] = {
                partition.number: before.get(
                    partition.number, self.cluster.offsets[partition.number]
                )
                for partition in sorted(consumer.claims)
            }

    def _lose(self, name: str) -> None:
        """The connection breaks."""
        question = self.questions.pop(name)
        self._feed(Gone(question.call))
        self._consumer(name).miss(self.now_ms)
        self._bury(name)

    def _end(self, name: str) -> None:
        """The process ends, and with it its connections."""
        self.consumers[name] = None
        self.positions.pop(name, None)
        question, sending = self.questions.pop(name, None), self.sendings.pop(name, None)
        if question is not None and question.call.answer is None:
            self._feed(Gone(question.call))
        if sending is not None and sending.call.answer is None:
            errand = sending.call.errand
            if isinstance(errand, Store):
                self.cluster.strays.append((errand.ids, sending.offsets))
            self._feed(Gone(sending.call))

    # -- commits ---------------------------------------------------------------------------------

    def _commit(self, name: str) -> None:
        """Commit after one more record of each partition."""
        consumer = self._consumer(name)
        self._take_positions(name)
        positions = self.positions[name]
        for number in positions:
            positions[number] += 1
        make = MakeCommit(
            member_id=consumer.member_id, epoch=consumer.epoch, numbers=tuple(positions)
        )
        commit = Commit(
            make=make, topic_names=frozenset((TOPIC,)), has_member=True, token=self._token()
        )
        call = Commits(
            api=GroupApi.COMMIT,
            token=self._token(),
            commits={commit.token: commit},
            knows_topics=True,
            is_at_coordinator=True,
        )
        self.sendings[name] = Sending(call, dict(positions))
        self._feed(Asked(call))

    def _store(self, name: str, how: str) -> None:
        sending = self.sendings[name]
        errand = sending.call.errand
        assert isinstance(errand, Store)
        (token,) = errand.commits
        told: frozenset[int] | str = LOST
        if how == "lose-stray":
            self.cluster.strays.append((errand.ids, sending.offsets))
        else:
            codes = frozenset((self._commit_in_cluster(name, errand.ids, sending.offsets),))
            if how == "store":
                told = sending.codes = codes
        self._feed(Stored(sending.call, {token: told}))

    def _commit_in_cluster(
        self, name: str, ids: AnchorIds | None, offsets: dict[int, int]
    ) -> int:
        code = self.cluster.code_of_commit(ids)
        if not code:
            for number, offset in offsets.items():
                before = self.cluster.offsets[number]
                promise(offset >= before, f"the offset of {number} goes back by {before - offset}")
                for other, consumer in self.consumers.items():
                    if other == name or consumer is None or not self._owns(consumer, number):
                        continue
                    position = self.positions[other][number]
                    promise(
                        position >= offset,
                        f"{other} began to read {number} before the commit of another was stored",
                    )
            self.cluster.commit(ids, offsets)
        return code

    def _committed(self, name: str, sending: Sending) -> None:
        del self.sendings[name]
        answer = sending.call.answer
        promise(not isinstance(answer, Failed), "a commit could not even be refused")
        if not isinstance(answer, Mapping):
            return
        (outcome,) = answer.values()
        assert isinstance(outcome, Outcome)
        is_refused = outcome.refused or outcome.is_away or not outcome.verdict
        if is_refused or (outcome.verdict and outcome.verdict.error):
            return
        if sending.codes == frozenset((0,)):
            for number, offset in sending.offsets.items():
                self.acknowledged[number] = max(offset, self.acknowledged.get(number, 0))

    # -- the machine's effects -------------------------------------------------------------------

    def _carry_out(self, how: str, name: str) -> None:
        if how == "deliver":
            self._feed(self.under_way.pop(name))
            return
        effect = self.pending.pop(name)
        match how:
            case "answer":
                self._feed(self._answer(effect))
            case "late":
                self.under_way[name] = self._answer(effect)
            case "fail":
                self._feed(_failure(effect, Damage.NONE))
            case "fail-unsure":
                self._feed(_failure(effect, Damage.UNSURE))
            case "fail-after" | "fail-answer":
                self._answer(effect)
                self._feed(_failure(effect, Damage.UNSURE))
            case _:
                raise ValueError(f"no such move: {how}")

    def _answer(self, effect: Effect) -> Input:
        match effect:
            case Look():
                return Looked(self.cluster.look())
            case Load():
                engine = GroupEngine(GROUP, self.shape.config)
                engine.load(self.log, now_ms=self.now_ms)
                return Loaded(engine, self.topics)
            case Write(batch):
                self._write(batch.durable)
                return Written()
            case Forget():
                return Forgotten()
            case AskCoordinator(message):
                return CoordinatorAnswered(self._ask_cluster(message))
            case _:
                raise TypeError(f"{effect} does not occur in a small world")

    def _write(self, records: Sequence[DurableRecord]) -> None:
        self.log = tuple(newest((*self.log, *records)))

    def _ask_cluster(self, message: Struct) -> Struct:
        answer = self.cluster.answer(message, self.now_ms)
        if not getattr(answer, "error_code", 0):
            for question in self.questions.values():
                if question.call.stage is Stage.CONFIRMING:
                    question.is_confirmed = True
        return answer

    def _restart(self, *, was_written: bool) -> None:
        """The gateway is killed, and another process begins with its log."""
        write = self.pending.get("Write")
        if was_written and isinstance(write, Write):
            self._write(write.batch.durable)
        for sending in self.sendings.values():
            if isinstance(sending.call.errand, Store):
                self.cluster.strays.append((sending.call.errand.ids, sending.offsets))
        self.pending.clear()
        self.under_way.clear()
        self.sendings.clear()
        for name in [*self.questions]:
            del self.questions[name]
            self._consumer(name).miss(self.now_ms)
            self._bury(name)
        self.runs += 1
        self.machine = _machine(self.shape, self.runs, self.now_ms)
        if has_members(self.log):
            self._feed(Resumed())

    # -- looking ---------------------------------------------------------------------------------

    def owns(self, consumer: Consumer, number: int) -> bool:
        """Whether the consumer has the partition, and the group must not give it away."""
        return (
            self.now_ms < consumer.lease_over_ms and Partition(TOPIC_ID, number) in consumer.claims
        )

    _owns = owns

    def is_at_rest(self) -> bool:
        """Whether every consumer has its share, and nothing is under way."""
        if self._works() or self.questions or self.sendings or self.restarts_as:
            return False
        running = [each for each in self.consumers.values() if each is not None]
        return all(
            consumer.is_fine and not consumer.has_something_to_say() for consumer in running
        ) and (self.cluster.has_stranger or shares_are_fair(running, self.shape.partition_count))


def begin(shape: Shape) -> World:
    """The first state of a world."""
    world = World(
        shape=shape,
        budgets=dict(shape.budgets),
        topics=small_topics(shape.partition_count),
        cluster=Cluster(GROUP, [(n + 2) * OFFSETS_APART for n in range(shape.partition_count)]),
        machine=_machine(shape, 1, START_MS),
        consumers={name: None for name, _kind in shape.consumers},
        kinds=dict(shape.consumers),
    )
    if shape.begins_at_rest:
        for name in world.consumers:
            world.budgets["start"] = 1
            world.play(f"start {name}")
            _settle_down(world)
        world.budgets = dict(shape.budgets)
    return world


def _settle_down(world: World) -> None:
    for _ in range(QUIET_STEPS_MAX):
        if world.is_at_rest():
            return
        world.play(world.free_moves()[0])
    raise BrokenPromiseError("the consumers do not come to rest")


def price(move: Move) -> str:
    """The budget that a move uses up; empty for a free one."""
    return _PRICES.get(move.partition(" ")[0], "")


_PRICES = {
    **{verb: verb for verb in ("start", "crash", "leave", "switch", "commit", "lose", "fail")},
    **{verb: verb for verb in ("late", "slow", "restart", "remove", "intrude")},
    **dict.fromkeys(("lose-answer", "lose-stored", "lose-stray"), "lose"),
    "late-answer": "late",
    **dict.fromkeys(("fail-answer", "fail-unsure", "fail-after"), "fail"),
    "withdraw": "intrude",
    "land": "lose",
}


def reply_to(api: GroupApi, answer: Answer) -> Reply:
    """What a consumer hears: the engine's reply, or the gateway's or the cluster's error."""
    match answer:
        case Refused(situation, why):
            code = code_for(situation, api)
            return _REPLIES[api](error=code, why=why)
        case Forwarded():
            return _REPLIES[api](error=ErrorCode.UNKNOWN_MEMBER_ID)
        case Failed():
            raise BrokenPromiseError("a call could not even be refused")
        case Mapping():
            raise TypeError("a commit has no reply")
        case _:
            return answer  # type: ignore[return-value]


def _grants(reply: Reply) -> bool:
    """Whether the consumer may begin to consume, or assign, partitions because of it."""
    match reply:
        case JoinGroupReply() | SyncGroupReply():
            return not reply.error
        case ConsumerHeartbeatReply():
            return not reply.error and reply.assignment is not None
        case _:
            return False


def _failure(effect: Effect, damage: Damage) -> Input:
    match effect:
        case Look():
            return Looked(NoAnswer("nobody answers"))
        case Load():
            return LoadFailed("the disk is gone")
        case Write():
            return WriteFailed(damage)
        case AskCoordinator():
            return CoordinatorFailed("nobody answers")
        case _:
            raise TypeError(f"{effect} does not fail in a small world")


def _machine(shape: Shape, run: int, now_ms: int) -> HostedGroup:
    gateway = Gateway(log_id=LOG_ID, run_id=f"run-{run}")
    rules = HostingRules(
        config=shape.config,
        standing=StandingRules(gateway=gateway, longest_session_ms=SESSION_TIMEOUT_MS),
        can_anchor=True,
        linger_ms=LINGER_MS,
        hosted=Room("hosted", groups_max=1, groups_per_address_max=1),
        anchored=Room("anchored", groups_max=1, groups_per_address_max=1),
        log_health=LogHealth(),
        pauses=Pauses(now_ms, grace_ms_max=0),
    )
    return HostedGroup(Standing(GROUP, rules.standing), rules)
