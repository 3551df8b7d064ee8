"""A small world: the shipped hosting machine with its engine, a log, a cluster, and consumers.

Nothing happens by itself. `moves.py` lists what can happen next, and `play` makes one of it happen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from coordinator.engine import GroupEngine
from coordinator.group.load import has_members, newest
from coordinator.interface.events import GroupLost
from coordinator.interface.records import (
    ClassicMemberRemoval,
    DurableRecord,
    MemberMetadata,
    RemovalCause,
    is_tombstone,
)
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.events.group_events import GenerationWentBack, GroupTaken
from gateway.hosting.anchor import GENERATIONS_OF_A_CONSUMER
from gateway.hosting.answers import BY_MEMBERS, GroupApi
from gateway.hosting.calls import (
    LOST,
    Call,
    Commit,
    Commits,
    LearnTopics,
    LocateCoordinator,
    Outcome,
    ProbeBroker,
    Reserve,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.effects import (
    AnswerClient,
    AskCoordinator,
    Awaited,
    Conclude,
    Effect,
    Forget,
    Load,
    LoadedGroup,
    Log,
    Look,
    ReportEvents,
    TellNow,
    Write,
)
from gateway.hosting.group import HostedGroup
from gateway.hosting.identity import AnchorIds, Gateway
from gateway.hosting.inputs import (
    Asked,
    Damage,
    Done,
    Failed,
    Gone,
    Input,
    Resumed,
    TimerFired,
)
from gateway.hosting.rules import HostingRules
from gateway.hosting.standing import Standing, StandingRules
from gateway.hosting.states import Stage
from kafka_codecs.declaration import Struct
from tests.simulation.explorer.computing_consumer import ComputingConsumer
from tests.simulation.explorer.promises import BrokenPromiseError, promise
from tests.simulation.explorer.replies import grants, reply_to
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_cluster import GROUP, Cluster
from tests.simulation.explorer.small_consumers import (
    SESSION_TIMEOUT_MS,
    TOPIC,
    TOPIC_ID,
    Consumer,
    Kind,
    MakeCommit,
    positions_of,
    shares_are_fair,
    start,
)

LOG_ID = "log-1"
START_MS = 1_600_000_000_000
FIRST_TOKEN = 1_000_000_000
OFFSETS_APART = 100_000_000
"""The committed offset of partition n begins at (n + 2) times this, so that the canonical form
knows an offset, and its partition, when it sees one."""
LINGER_MS = 3_000
TIMED_OUT = (
    RemovalCause.REVOCATION_TIMED_OUT,
    RemovalCause.JOIN_TIMED_OUT,
    RemovalCause.SYNC_TIMED_OUT,
)
"""Why the group may remove a member that sends heartbeats."""
LOSSES = (RemovalCause.GROUP_TAKEN, RemovalCause.GENERATION_WENT_BACK)
"""Why it removes all members."""

Move = str
"""Words: what happens, to what, and how."""


@dataclass(slots=True, eq=False)
class Question:
    """A consumer's request about the group, and what becomes of its answer."""

    call: Call
    fate: str = ""
    is_confirmed: bool = False
    """Whether the cluster has confirmed the anchor since the engine decided."""
    is_of_lost_group: bool = False
    """Whether somebody else had the group since the consumer joined, or since the engine decided
    an answer that waits for its confirmation."""


@dataclass(slots=True, eq=False)
class Sending:
    """A consumer's commit."""

    call: Commits
    offsets: dict[int, int]
    codes: frozenset[int] = frozenset()
    """The cluster's latest answer."""


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
    """The newest record of each key, without tombstones: a log may be compacted at any time."""
    pending: dict[str, Awaited] = field(default_factory=dict)
    """The machine's effects that have not been carried out."""
    under_way: dict[str, Input] = field(default_factory=dict)
    """Answers to effects that have not arrived."""
    left_behind: list[Struct] = field(default_factory=list)
    """Requests of killed processes that the coordinator has not received."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The offsets that consumers know to be committed."""
    has_strangers: bool = False

    # -- what is open ----------------------------------------------------------------------------

    def may_ask(self, consumer: Consumer) -> bool:
        """Whether it may send a request now."""
        return consumer.has_something_to_say() or consumer.beat_due_ms <= self.now_ms

    def storing(self) -> list[str]:
        """The consumers whose commits are on their way."""
        sendings = self.sendings.items()
        return [name for name, each in sendings if isinstance(each.call.errand, StoreCommits)]

    def probing(self) -> list[str]:
        """The consumers whose brokers are looked for."""
        sendings = self.sendings.items()
        return [name for name, each in sendings if isinstance(each.call.errand, ProbeBroker)]

    # -- time ------------------------------------------------------------------------------------

    def is_time_up(self) -> bool:
        """Whether the machine has to be told that time has passed."""
        at_ms = self.machine.next_ms()
        return at_ms is not None and at_ms <= self.now_ms

    def _is_somebody_due(self) -> bool:
        """Whether a consumer has to speak before time passes."""
        is_missed = not self.shape.is_away_long and any(
            self.consumers[name] is None for name in self.restarts_as
        )
        return is_missed or any(
            consumer is not None
            and name not in self.questions
            and consumer.beat_due_ms <= self.now_ms
            for name, consumer in self.consumers.items()
        )

    def is_busy(self) -> bool:
        """Whether somebody is about to answer."""
        return bool(
            self.pending
            or self.under_way
            or self.left_behind
            or self.storing()
            or self.probing()
            or any(each.call.answer is not None for each in self.questions.values())
        )

    def may_wait(self) -> bool:
        """Whether nothing is due before time passes, and something waits for time."""
        is_due = self.is_time_up() or self._is_somebody_due()
        return not is_due and self._next_ms() is not None

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

    # -- moves -----------------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        """Make a move. Raises BrokenPromiseError."""
        verb, _, what = move.partition(" ")
        if what in self.consumers:
            self._play_of_consumer(verb, what)
        elif what and verb not in ("land", "arrive", "restart"):
            self._carry_out(verb, what)
        else:
            self._play_around(verb, what)
        self._settle()

    def _play_of_consumer(self, verb: str, name: str) -> None:
        match verb:
            case "send" | "lose-answer" | "late-answer":
                self._ask(name, "" if verb == "send" else verb)
            case "hear":
                self._hear(name)
            case "lose":
                self._lose(name)
            case "commit":
                self._commit(name)
            case "store" | "lose-stored" | "lose-stray":
                self._store(name, verb)
            case "probe":
                errand = self.sendings[name].call.errand
                assert isinstance(errand, ProbeBroker)
                self._feed(Done(errand, True))
            case "start" | "return":
                kind = self.kinds[name] = self.restarts_as.pop(name, self.kinds[name])
                self.consumers[name] = self._process(name, kind)
            case "crash":
                self._end(name)
            case _:
                self._close(name, comes_back=verb == "switch")

    def _process(self, name: str, kind: Kind) -> Consumer:
        if kind is Kind.NATIVE and self.shape.config.client_side_assignors:
            return ComputingConsumer(name=name, beat_due_ms=self.now_ms)
        return start(name, kind, self.topics, self.now_ms)

    def _close(self, name: str, *, comes_back: bool) -> None:
        if comes_back:
            is_native = self.kinds[name] is Kind.NATIVE
            self.restarts_as[name] = self.shape.classic if is_native else Kind.NATIVE
        self._consumer(name).close(self.now_ms)

    def _play_around(self, verb: str, what: str) -> None:
        match verb:
            case "tick":
                self._feed(TimerFired())
            case "wait" | "slow":
                self._wait()
            case "restart":
                self._restart(what)
            case "arrive":
                self.cluster.answer(self.left_behind.pop(int(what)), self.now_ms)
            case "land":
                ids, offsets = self.cluster.strays.pop(int(what))
                self._commit_in_cluster("", ids, offsets)
            case "intrude":
                self.cluster.admit_stranger()
                self.has_strangers = True
            case "remove" | "withdraw":
                self.cluster.remove_member()
            case _:
                raise ValueError(f"no such move: {verb}")

    def _consumer(self, name: str) -> Consumer:
        consumer = self.consumers[name]
        assert consumer is not None, f"{name} is not running"
        return consumer

    def _feed(self, event: Input) -> None:
        try:
            only = self.machine.take_at_rest(event, self.now_ms)
            effects = self.machine.handle(event, self.now_ms) if only is None else (only,)
        except Exception as error:
            raise BrokenPromiseError(f"the machine fails: {error!r}") from error
        self._note(effects)

    def _note(self, effects: Sequence[Effect]) -> None:
        places = []
        for effect in effects:
            match effect:
                case Log(error=error):
                    promise(error is None, "the engine fails:", repr(error))
                case TellNow(GroupTaken() | GenerationWentBack()):
                    promise(self._may_be_taken(), "the group is given up though nobody else has it")
                    self._void_leases()
                case ReportEvents() | TellNow() | AnswerClient() | ProbeBroker() | StoreCommits():
                    pass  # calls have their answers and errands
                case Reserve():
                    places.append(effect)
                case Conclude() | LearnTopics() | LocateCoordinator():
                    raise TypeError(f"{effect} does not occur in a small world")
                case _:
                    name = type(effect).__name__
                    promise(name not in self.pending, f"there are two effects {name} at a time")
                    self.pending[name] = effect
        for place in places:
            self._feed(Done(place))

    def _may_be_taken(self) -> bool:
        """Whether somebody else had the group, or the anchor cannot tell: if it was removed twice,
        as many generations have begun as with a consumer."""
        held = self.machine.anchor._held
        begun = self.cluster.group.generation - held.generation if held is not None else 0
        return self.has_strangers or begun >= GENERATIONS_OF_A_CONSUMER

    def _is_fence_postponed(self) -> bool:
        """Whether the log did not take the loss of the group. Until it does, members go on, but no
        commit is decided."""
        return any(isinstance(each, GroupLost) for each in self.machine.engine._happened)

    def _void_leases(self) -> None:
        """The members are fenced without a word to them, because somebody else has the group: each
        learns it with its next heartbeat (DEV D36)."""
        for consumer in self.consumers.values():
            if consumer is not None:
                consumer.lease_over_ms = self.now_ms
                consumer.has_lost_group = consumer.epoch > 0
        for question in self.questions.values():
            question.is_of_lost_group |= question.call.stage is Stage.CONFIRMING

    def _settle(self) -> None:
        """Let the consumers hear what has been answered."""
        for name, question in list(self.questions.items()):
            if question.call.answer is None or question.fate == "late-answer":
                continue
            if question.fate == "lose-answer":
                del self.questions[name]
                self._consumer(name).miss(self.now_ms)
                self._bury(name)
            else:
                self._hear(name)
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
        call = Call(api=api, event=event, token=token, knows_topics=True, is_at_coordinator=True)
        is_of_lost_group = consumer.has_lost_group and api in BY_MEMBERS
        self.questions[name] = Question(call, fate, is_of_lost_group=is_of_lost_group)
        self._feed(Asked(call))

    def _token(self) -> Token:
        self.next_token += 1
        return self.next_token

    def _hear(self, name: str) -> None:
        question = self.questions.pop(name)
        call, consumer = question.call, self._consumer(name)
        assert call.answer is not None
        reply = reply_to(call.api, call.answer)
        if grants(reply):
            promise(question.is_confirmed, f"{name} gets partitions from an anchor in doubt")
        if question.is_of_lost_group and not self._is_fence_postponed():
            promise(reply.error, f"{name} goes on as a member, though somebody else had the group")
        consumer.hear(reply, self.now_ms)
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
        before = self.positions.pop(name, {})
        if positions := positions_of(self.consumers[name], before, self.cluster.offsets):
            self.positions[name] = positions

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
            if isinstance(errand, StoreCommits):
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
            make=make,
            topic_names=frozenset((TOPIC,)),
            has_member=True,
            order_keys=frozenset((consumer.member_id,)),
            token=self._token(),
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
        assert isinstance(errand, StoreCommits)
        (token,) = errand.commits
        told: frozenset[int] | str = LOST
        if how == "lose-stray":
            self.cluster.strays.append((errand.ids, sending.offsets))
        else:
            codes = frozenset((self._commit_in_cluster(name, errand.ids, sending.offsets),))
            if how == "store":
                told = sending.codes = codes
        self._feed(Done(errand, {token: told}))

    def _commit_in_cluster(self, name: str, ids: AnchorIds | None, offsets: dict[int, int]) -> int:
        code = self.cluster.coordinator.code_of_commit(GROUP, ids)
        if not code:
            for number, offset in offsets.items():
                before = self.cluster.offsets[number]
                promise(offset >= before, f"the offset of {number} goes back by {before - offset}")
                for other, consumer in self.consumers.items():
                    if other == name or consumer is None or not self.owns(consumer, number):
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
        promise(not isinstance(answer, Unanswerable), "a commit could not even be refused")
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
                self._feed(failure(effect, Damage.NONE))
            case "fail-unsure":
                self._feed(failure(effect, Damage.UNSURE))
            case "fail-after" | "fail-answer":
                self._answer(effect)
                self._feed(failure(effect, Damage.UNSURE))
            case _:
                raise ValueError(f"no such move: {how}")

    def _answer(self, effect: Awaited) -> Input:
        match effect:
            case Look():
                return Done(effect, self.cluster.coordinator.look(GROUP))
            case Load():
                engine = GroupEngine(GROUP, self.shape.config)
                engine.load(self.log, now_ms=self.now_ms)
                return Done(effect, LoadedGroup(engine, self.topics))
            case Write(batch):
                self._write(batch.durable)
                return Done(effect)
            case Forget():
                return Done(effect)
            case AskCoordinator(message):
                return Done(effect, self._ask_cluster(message))
            case _:
                raise TypeError(f"{effect} does not occur in a small world")

    def _write(self, records: Sequence[DurableRecord]) -> None:
        for record in records:
            if isinstance(record, MemberMetadata | ClassicMemberRemoval):
                if record.cause in TIMED_OUT:
                    self._fence(record.member_id)
                elif record.cause in LOSSES:
                    self._void_leases()  # again, if the log did not take it at first
        written = newest((*self.log, *records))
        self.log = tuple(record for record in written if not is_tombstone(record))

    def _fence(self, member_id: str) -> None:
        for consumer in self.consumers.values():
            if consumer is not None and consumer.member_id == member_id:
                consumer.is_fenced, consumer.lease_over_ms = True, 0

    def _ask_cluster(self, message: Struct) -> Struct:
        answer = self.cluster.answer(message, self.now_ms)
        if not answer.error_code:
            for question in self.questions.values():
                if question.call.stage is Stage.CONFIRMING:
                    question.is_confirmed = True
        return answer

    def _restart(self, what: str) -> None:
        """The gateway is killed, and another process begins with its log. What it has sent to the
        log was written, or its request to the coordinator will arrive."""
        match what, self.pending.get("Write"), self.pending.get("AskCoordinator"):
            case "written", Write(batch), _:
                self._write(batch.durable)
            case "sent", _, AskCoordinator(message):
                self.left_behind.append(message)
            case _:
                pass
        for sending in self.sendings.values():
            if isinstance(sending.call.errand, StoreCommits):
                self.cluster.strays.append((sending.call.errand.ids, sending.offsets))
        self.pending.clear()
        self.under_way.clear()
        self.sendings.clear()
        for name in [*self.questions]:
            del self.questions[name]
            self._consumer(name).miss(self.now_ms)
            self._bury(name)
        self.runs += 1
        self.machine = new_machine(self.shape, self.runs, self.now_ms)
        if has_members(self.log):
            for consumer in self.consumers.values():
                if consumer is not None:
                    consumer.has_lost_group = False  # what only the killed process knew (DEV D36)
            self._feed(Resumed())

    # -- looking ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The state in one line."""
        group = self.machine.engine.core.state.group
        told = [
            f"{self.now_ms - START_MS} ms",
            f"group {getattr(group, 'phase', None) or getattr(group, 'state', 'unknown')}",
        ]
        for name, consumer in self.consumers.items():
            if consumer is not None:
                numbers = sorted(partition.number for partition in consumer.claims)
                told.append(f"{name} ({consumer.kind}) has {numbers} at {consumer.epoch}")
        told += [f"{name} waits" for name in (*self.pending, *self.under_way, *self.questions)]
        return "; ".join(told)

    def owns(self, consumer: Consumer, number: int) -> bool:
        """Whether the consumer has the partition, and the group must not give it away."""
        return (
            self.now_ms < consumer.lease_over_ms and Partition(TOPIC_ID, number) in consumer.claims
        )

    def is_at_rest(self) -> bool:
        """Whether every consumer has its share, and nothing is under way. With a stranger in the
        group the consumers have nothing: they would join it in the cluster, which is not played."""
        is_open = self.questions or self.sendings or self.machine.engine.core.state.commits
        if self.is_busy() or is_open or self.restarts_as:
            return False
        running = [each for each in self.consumers.values() if each is not None]
        if self.cluster.has_stranger:
            return not any(consumer.claims for consumer in running)
        return all(
            consumer.is_fine and not consumer.has_something_to_say() for consumer in running
        ) and shares_are_fair(running, self.shape.partition_count)


def failure(effect: Awaited, damage: Damage) -> Input:
    """The input that follows if an effect fails."""
    return Failed(effect, damage if isinstance(effect, Write) else "nobody answers")


def new_machine(shape: Shape, run: int, now_ms: int, *, forwards: bool = False) -> HostedGroup:
    """The machine of another process. `forwards`: whether `groups_forward` names the group."""
    gateway = Gateway(log_id=LOG_ID, run_id=run)
    rules = HostingRules(
        config=shape.config,
        standing=StandingRules(
            gateway=gateway,
            longest_session_ms=SESSION_TIMEOUT_MS,
            host_patterns=() if shape.is_adoption else ("*",),
            forward_patterns=("*",) if forwards else (),
        ),
        can_anchor=True,
        linger_ms=LINGER_MS,
    )
    return HostedGroup(Standing(GROUP, rules.standing), rules)
