"""A small world in which a live group moves behind the gateway.

The cluster serves the group at first. Its consumers are behind the gateway, which relays what they
ask, or beside it. The machine of adoption and both engines are the shipped ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from coordinator.engine import GroupEngine
from coordinator.group.load import newest
from coordinator.interface.events import (
    AdoptionMoved,
    Event,
    GroupAdopted,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.events import TimePassed as EngineTimePassed
from coordinator.interface.records import DurableRecord, is_tombstone
from coordinator.interface.replies import (
    HeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    OffsetVerdict,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.adoption import Adopting
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    Describe,
    Described,
    Drained,
    Effect,
    GaveUp,
    Heard,
    Hold,
    Input,
    Lane,
    Store,
    Stored,
    StoreFailed,
    TakeOver,
    TakeOverFailed,
    TimePassed,
    TookOver,
    Treatment,
    Unanswered,
)
from gateway.hosting.forwarded import WatchedGroup, WatchedMember
from gateway.hosting.identity import AnchorIds
from gateway.requests.messages import response
from kafka_codecs.consumer_protocol import decode_subscription
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.simulation.explorer.promises import BrokenPromiseError, promise
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_cluster import GROUP
from tests.simulation.explorer.small_consumers import (
    TOPIC_ID,
    Consumer,
    Kind,
    MakeCommit,
    positions_of,
    shares_are_fair,
    start,
)
from tests.simulation.explorer.small_world import (
    FIRST_TOKEN,
    START_MS,
    Move,
)
from tests.simulation.explorer.upstream import VERSION, Upstream, the_gateway

UNTIMELY = frozenset({"slow", "late", "fail", "restart", "crash", "leave", "start", "lose"})
"""Budgets whose use excuses a rebalance of the consumers behind the gateway."""


@dataclass(slots=True, eq=False)
class Sending:
    """A commit of a consumer, and under which ids it travels."""

    make: MakeCommit
    offsets: dict[int, int]
    route: str = "held"
    """`held`; or under way: `relayed` with the member's own ids, `guarded` with those of the
    leader's member, or `hosted` with the anchor's."""
    ids: AnchorIds | None = None
    token: Token = 0


@dataclass(slots=True, eq=False)
class AdoptionWorld:
    """One state of the world."""

    shape: Shape
    budgets: dict[str, int]
    topics: Topics
    upstream: Upstream
    here: GroupEngine
    """The gateway's."""
    now_ms: int = START_MS
    next_token: Token = FIRST_TOKEN
    consumers: dict[str, Consumer | None] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    positions: dict[str, dict[int, int]] = field(default_factory=dict)
    """How far each consumer has read its partitions, by their numbers."""
    asked: dict[str, Token] = field(default_factory=dict)
    """The requests of consumers that are not answered."""
    waiting: dict[str, Request] = field(default_factory=dict)
    """Those of them that the gateway holds."""
    sendings: dict[str, Sending] = field(default_factory=dict)
    strays: list[tuple[Sending, str]] = field(default_factory=list)
    """Commits on their way whose answers are lost, with the consumers that sent them."""
    log: tuple[DurableRecord, ...] = ()
    machine: Adopting | None = None
    pending: dict[str, Effect] = field(default_factory=dict)
    """The machine's effects that have not been carried out, by what they are about."""
    lanes: dict[Token, str] = field(default_factory=dict)
    """The machine's requests that the coordinator has parked."""
    answers: dict[str, Struct] = field(default_factory=dict)
    """The answers to those that have not arrived."""
    left_behind: list[Struct] = field(default_factory=list)
    """Requests whose answers nobody awaits, and which the coordinator has not received."""
    leader_id: str | None = None
    """From the latest JoinGroup answer that was relayed in this process."""
    relayed: dict[str, int] = field(default_factory=dict)
    """When a heartbeat of each member was last relayed."""
    recalled: dict[str, str] = field(default_factory=dict)
    """The consumers that got UNKNOWN_MEMBER_ID instead of a place in the next round, and their
    former ids."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The newest offset of each partition of which a consumer knows that it is stored."""
    is_excused: bool = False
    """Whether something has happened after which consumers may see a rebalance."""

    # -- what is open ----------------------------------------------------------------------------

    @property
    def treatment(self) -> Treatment:
        """What becomes of requests that reach the gateway."""
        if self.machine is not None:
            return self.machine.treatment
        # As `Standing` decides: a late JoinGroup of an anchor makes the group ours.
        is_ours = self.here.state.group is not None or self.upstream.is_anchored
        return Treatment.HOSTED if is_ours else Treatment.FORWARDED

    @property
    def behind(self) -> list[str]:
        """The consumers behind the gateway."""
        return [name for name, _kind in self.shape.consumers]

    def may_ask(self, name: str, consumer: Consumer) -> bool:
        """Whether it may send a request now."""
        is_due = consumer.has_something_to_say() or consumer.beat_due_ms <= self.now_ms
        return name not in self.asked and is_due

    @property
    def may_be_adopted(self) -> bool:
        """Whether an operator may give the command now."""
        return self.machine is None and self.treatment is Treatment.FORWARDED

    def storing(self) -> list[str]:
        """The consumers whose commits are on their way to the cluster."""
        return [name for name, each in self.sendings.items() if each.route != "held"]

    def is_drained(self) -> bool:
        """Whether nothing is under way that was relayed."""
        return not (
            any(name in self.asked and name not in self.waiting for name in self.behind)
            or any(each.route == "relayed" for each in self.sendings.values())
        )

    def may_carry_out(self, name: str) -> bool:
        """Whether an effect can be answered now."""
        return not isinstance(self.pending[name], Hold) or self.is_drained()

    def is_busy(self) -> bool:
        """Whether somebody is about to answer."""
        return bool(
            any(map(self.may_carry_out, self.pending))
            or self.answers
            or self.left_behind
            or self.storing()
        )

    # -- time ------------------------------------------------------------------------------------

    def is_time_up(self) -> bool:
        """Whether the machine has to be told that time has passed."""
        at_ms = None if self.machine is None else self.machine.next_ms()
        return at_ms is not None and at_ms <= self.now_ms

    def may_wait(self) -> bool:
        """Whether nothing is due before time passes, and something waits for time."""
        is_somebody_due = any(
            consumer is not None and self.may_ask(name, consumer)
            for name, consumer in self.consumers.items()
        )
        return not (self.is_time_up() or is_somebody_due) and self._next_ms() is not None

    def _next_ms(self) -> int | None:
        times = [self.upstream.engine.next_deadline_ms(), self.here.next_deadline_ms()]
        times += [None if self.machine is None else self.machine.next_ms()]
        times += [
            consumer.beat_due_ms
            for name, consumer in self.consumers.items()
            if consumer is not None and name not in self.asked
        ]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _wait(self) -> None:
        next_ms = self._next_ms()
        assert next_ms is not None
        self.now_ms = max(self.now_ms, next_ms)
        if self.treatment is Treatment.HOSTED:
            self.upstream.keep(self.now_ms)
        self.upstream.pass_time(self.now_ms)
        at_ms = self.here.next_deadline_ms()
        if at_ms is not None and at_ms <= self.now_ms:
            self._tell_here(EngineTimePassed())

    # -- moves -----------------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        """Make a move. Raises BrokenPromiseError."""
        verb, _, what = move.partition(" ")
        if verb in UNTIMELY or verb.partition("-")[0] in UNTIMELY:
            self.is_excused = True
        try:
            self._play(verb, what)
            self._settle()
        except BrokenPromiseError:
            raise
        except Exception as error:
            raise BrokenPromiseError(f"something fails: {error!r}") from error

    def _play(self, verb: str, what: str) -> None:  # one case for each move
        match verb:
            case "send":
                self._send(what)
            case "start":
                self.consumers[what] = start(what, self.kinds[what], self.topics, self.now_ms)
            case "crash":
                self._end(what)
            case "leave":
                self._consumer(what).close(self.now_ms)
                self.positions.pop(what, None)
            case "commit":
                self._commit(what)
            case "store" | "lose-stray":
                self._store(what, is_lost=verb == "lose-stray")
            case "land":
                sending, name = self.strays.pop(int(what))
                self._store_in_cluster(name, sending)
            case "adopt":
                self._begin(Adopting(GROUP, the_gateway().guise, self.shape.config))
            case "tick":
                self._feed(TimePassed())
                if self.is_time_up():
                    raise BrokenPromiseError("the machine waits for a time that has passed")
            case "wait" | "slow":
                self._wait()
            case "arrive":
                self._arrive(self.left_behind.pop(int(what)), None)
            case "hear":
                self._feed(Answered(Lane(what), self.answers.pop(Lane(what))))
            case "restart":
                self._restart(keeps_requests=what == "sent")
            case _:
                self._carry_out(verb, what)

    def _settle(self) -> None:
        """Let everybody hear what was answered, and treat what has waited."""
        self._hear_upstream()
        if self.machine is not None and self.machine.is_over:
            self.machine = None
            self.pending.clear()
            self.answers.clear()
            self.lanes.clear()
        for name, event in list(self.waiting.items()):
            if name in self.waiting:
                del self.waiting[name]
                self._treat(name, event)
        for name, sending in list(self.sendings.items()):
            if sending.route == "held":
                self._route(name, sending)
        self._hear_upstream()

    def _hear_upstream(self) -> None:
        while self.upstream.replies:
            token, reply = self.upstream.replies.pop(0)
            if (lane := self.lanes.pop(token, None)) is not None:
                self.answers[lane] = response(reply, VERSION)
            for name, asked in list(self.asked.items()):
                if asked == token:
                    self._watch(name, reply)
                    self._hear(name, reply)
        while self.upstream.timed_out:
            self._fence(self.upstream.timed_out.pop())

    def _fence(self, member_id: str) -> None:
        """As with Kafka, a member that did not rejoin in time owns nothing, and learns it later."""
        for consumer in self.consumers.values():
            if consumer is not None and consumer.member_id == member_id:
                consumer.is_fenced, consumer.lease_over_ms = True, 0

    # -- consumers -------------------------------------------------------------------------------

    def _consumer(self, name: str) -> Consumer:
        consumer = self.consumers[name]
        assert consumer is not None, f"{name} is not running"
        return consumer

    def _token(self) -> Token:
        self.next_token += 1
        return self.next_token

    def _send(self, name: str) -> None:
        token, consumer = self._token(), self._consumer(name)
        if consumer.is_closing and not consumer.member_id:
            self._end(name)
            return
        _api, event = consumer.ask(token, UUID(int=token), self.now_ms)
        self.asked[name] = token
        if name in self.behind:
            self._treat(name, event)
        else:
            self.upstream.tell(event, self.now_ms)

    def _hear(self, name: str, reply: Reply) -> None:
        del self.asked[name]
        consumer = self._consumer(name)
        before = set(consumer.claims)
        consumer.hear(reply, self.now_ms)
        if name in self.behind:
            promise(not consumer.died_of, f"{name} ends because of {consumer.died_of}")
            error = reply.error
            promise(
                self.is_excused or not error or error == ErrorCode.MEMBER_ID_REQUIRED,
                f"{name} sees {ErrorCode(error).name}, though nothing has happened",
            )
            promise(
                self.is_excused or before <= consumer.claims,
                f"{name} gives up partitions, though nothing has happened",
            )
        if consumer.is_over:
            self._end(name)
        self._take_positions(name)

    def _take_positions(self, name: str) -> None:
        before = self.positions.pop(name, {})
        if positions := positions_of(self.consumers[name], before, self.upstream.offsets):
            self.positions[name] = positions

    def _end(self, name: str) -> None:
        self.consumers[name] = None
        self.positions.pop(name, None)
        self.asked.pop(name, None)
        self.waiting.pop(name, None)
        self.recalled.pop(name, None)
        if (sending := self.sendings.pop(name, None)) is not None and sending.route != "held":
            self._leave_behind(name, sending)

    def _leave_behind(self, name: str, sending: Sending) -> None:
        """The sender of a commit has gone, and the commit may still be stored. Not a hosted one: it
        ends with the anchor's next id, as `HostedAdoptionWorld` plays."""
        if sending.route == "hosted":
            self._tell_here(OffsetCommitEnded(commit=sending.token))
        else:
            self.strays.append((sending, name))

    def _watch(self, name: str, reply: Reply) -> None:
        """What the gateway learns from an answer that it relays."""
        if name not in self.behind or reply.error:
            return
        if isinstance(reply, JoinGroupReply):
            self.leader_id = reply.leader
        if isinstance(reply, HeartbeatReply | SyncGroupReply):
            self.relayed[self._consumer(name).member_id] = self.now_ms

    # -- the gateway's treatment of requests -----------------------------------------------------

    def _treat(self, name: str, event: Request) -> None:
        match self.treatment:
            case Treatment.FORWARDED:
                self.upstream.tell(event, self.now_ms)
                self._hear_upstream()
            case Treatment.HELD:
                if self._is_current(event):
                    self._hear(name, HeartbeatReply())
                else:
                    self.waiting[name] = event
            case Treatment.RECALLED:
                self._recall(name, event)
            case Treatment.HOSTED:
                self._tell_here(event)

    def _members(self) -> set[str]:
        adoption = self.here.state.adoption
        return set() if adoption is None else {m.member_id for m in adoption.group.members}

    def _is_current(self, event: Request) -> bool:
        adoption = self.here.state.adoption
        return (
            isinstance(event, HeartbeatReceived)
            and self.machine is not None
            and self.machine.vouches
            and adoption is not None
            and event.member_id in self._members()
            and event.generation == adoption.group.generation
        )

    def _recall(self, name: str, event: Request) -> None:
        match event:
            case LeaveGroupReceived():
                self._feed(GaveUp(event.members[0].member_id))
                self._hear(name, LeaveGroupReply())
            case HeartbeatReceived() if event.member_id in self._members():
                self._feed(Heard(event.member_id))
                self._hear(name, HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
            case SyncGroupReceived() if event.member_id in self._members():
                self._hear(name, SyncGroupReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
            case JoinGroupReceived() if event.member_id in self._members():
                self._recall_joiner(name, event)
            case JoinGroupReceived() if name in self.recalled and not event.member_id:
                self.waiting[name] = event
                self._feed(GaveUp(self.recalled.pop(name)))
            case _:
                self.waiting[name] = event

    def _recall_joiner(self, name: str, event: JoinGroupReceived) -> None:
        """Its id is void from now on. Whether it has given up everything, its JoinGroup says, or
        the next one on its connection does."""
        if self._claims(event):
            self._feed(Heard(event.member_id))
            self.recalled[name] = event.member_id
        else:
            self._feed(GaveUp(event.member_id))
        self._hear(name, JoinGroupReply(error=ErrorCode.UNKNOWN_MEMBER_ID))

    @staticmethod
    def _claims(event: JoinGroupReceived) -> bool:
        """Whether the joining member states that it owns partitions."""
        _version, subscription = decode_subscription(event.protocols[0][1])
        return any(each.partitions for each in subscription.owned_partitions)

    def _tell_here(self, event: Event) -> None:
        step = self.here.handle(event, now_ms=self.now_ms, topics=self.topics)
        self._write(step.durable)
        for record in step.records:
            self.here.apply(record)
        for token, reply in step.replies:
            for name, asked in list(self.asked.items()):
                if asked == token:
                    self._hear(name, reply)
            for name, sending in list(self.sendings.items()):
                if sending.token == token:
                    self._judged(name, sending, reply)

    def _write(self, records: Sequence[DurableRecord]) -> None:
        written = newest((*self.log, *records))
        self.log = tuple(record for record in written if not is_tombstone(record))

    # -- commits ---------------------------------------------------------------------------------

    def _commit(self, name: str) -> None:
        consumer = self._consumer(name)
        offsets = {number: offset + 1 for number, offset in self.positions[name].items()}
        self.positions[name] = dict(offsets)
        make = MakeCommit(
            member_id=consumer.member_id, epoch=consumer.epoch, numbers=tuple(offsets)
        )
        sending = self.sendings[name] = Sending(make, offsets)
        if name in self.behind:
            self._route(name, sending)
        else:
            sending.route = "relayed"

    def _route(self, name: str, sending: Sending) -> None:
        if self._holds_commits:
            return
        match self.treatment:
            case Treatment.HOSTED:
                sending.token = self._token()
                self._tell_here(sending.make(sending.token, self.topics))
            case Treatment.RECALLED:
                guard = None if self.machine is None else self.machine.guard
                if guard is None or sending.make.member_id not in self._members():
                    self._committed(name, sending, ErrorCode.REBALANCE_IN_PROGRESS)
                else:
                    sending.route, sending.ids = "guarded", guard
            case _:
                sending.route = "relayed"

    @property
    def _holds_commits(self) -> bool:
        """Until the anchor is stable, the cluster would refuse those of members that have left."""
        return self.treatment is Treatment.HELD

    def _judged(self, name: str, sending: Sending, reply: Reply) -> None:
        assert isinstance(reply, OffsetVerdict)
        if reply.error:
            self._committed(name, sending, reply.error)
        else:
            sending.route, sending.ids = "hosted", self.upstream.keep(self.now_ms)

    def _store(self, name: str, *, is_lost: bool) -> None:
        sending = self.sendings[name]
        if is_lost:
            self.strays.append((sending, name))
            self._committed(name, sending, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        code = self._store_in_cluster(name, sending)
        if sending.route == "hosted":
            self._tell_here(OffsetCommitEnded(commit=sending.token))
        self._committed(name, sending, code)

    def _store_in_cluster(self, name: str, sending: Sending) -> int:
        token, ids = self._token(), sending.ids
        commit = sending.make(token, self.topics)
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
        before = list(self.upstream.offsets)
        code = self.upstream.commit(commit, sending.offsets, self.now_ms)
        if not code:
            for number, offset in sending.offsets.items():
                promise(offset >= before[number], f"the offset of {number} goes back")
                for other, positions in self.positions.items():
                    promise(
                        other == name or positions.get(number, offset) >= offset,
                        f"{other} began to read {number} before a commit was stored",
                    )
        return code

    def _committed(self, name: str, sending: Sending, code: int) -> None:
        del self.sendings[name]
        if not code:
            for number, offset in sending.offsets.items():
                self.acknowledged[number] = max(offset, self.acknowledged.get(number, 0))
        elif name in self.behind:
            promise(self.is_excused, f"a commit of {name} gets {ErrorCode(code).name}")

    # -- the machine -----------------------------------------------------------------------------

    def _begin(self, machine: Adopting) -> None:
        self.machine = machine
        self._note(machine.start(self.now_ms))

    def _feed(self, event: Input) -> None:
        assert self.machine is not None
        self._note(self.machine.handle(event, self.now_ms))

    def _note(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            name = effect.lane.value if isinstance(effect, Ask) else type(effect).__name__
            if isinstance(effect, Ask) and isinstance(effect.message, HeartbeatRequest):
                name += "+" * sum(each.startswith(name) for each in self.pending)
            promise(name not in self.pending, f"there are two effects {name} at a time")
            self.pending[name] = effect

    def _carry_out(self, how: str, name: str) -> None:
        effect = self.pending.pop(name)
        match effect:
            case Ask(lane, message):
                self._carry_out_request(how, lane, message)
            case Describe():
                group = None if how == "fail" else self.upstream.describe()
                self._feed(Described(group, self._watched()))
            case Hold():
                self._feed(Drained())
            case Store(adoption):
                if how != "fail":
                    self._tell_here(AdoptionMoved(adoption=adoption))
                self._feed(Stored() if how == "answer" else StoreFailed("the disk is gone"))
            case TakeOver():
                if how != "fail":
                    self._tell_here(GroupAdopted())
                self._feed(TookOver() if how == "answer" else TakeOverFailed("it is gone"))

    def _carry_out_request(self, how: str, lane: Lane, message: Struct) -> None:
        match how:
            case "answer":
                self._arrive(message, lane)
            case "fail":
                self._feed(Unanswered(lane, "nobody answers"))
            case "fail-answer":
                self._arrive(message, None)
                self._feed(Unanswered(lane, "nobody answers"))
            case _:  # late
                self.left_behind.append(message)
                self._feed(Unanswered(lane, "nobody answers"))

    def _arrive(self, message: Struct, lane: Lane | None) -> None:
        """The coordinator receives a request. It may park it."""
        token = self._token()
        self.upstream.tell(self.upstream.read(token, message), self.now_ms)
        for position, (answered, reply) in enumerate(self.upstream.replies):
            if answered == token:
                del self.upstream.replies[position]
                if lane is not None:
                    self._feed(Answered(lane, response(reply, VERSION)))
                return
        if lane is not None:
            self.lanes[token] = lane

    def _watched(self) -> WatchedGroup:
        """What the gateway knows from what it has relayed."""
        described = self.upstream.describe()
        timeouts = {e.member_id: self.upstream.timeouts_ms(e.member_id) for e in described.members}
        return WatchedGroup(
            group_id=GROUP,
            generation=self.upstream.generation,
            protocol=described.protocol_data,
            leader_id=self.leader_id,
            members={
                each.member_id: WatchedMember(
                    member_id=each.member_id,
                    session_timeout_ms=timeouts[each.member_id][0],
                    rebalance_timeout_ms=timeouts[each.member_id][1],
                    heartbeat_ms=self.relayed.get(each.member_id),
                )
                for each in described.members
            },
        )

    def _restart(self, *, keeps_requests: bool) -> None:
        """The gateway is killed, and another process begins with its log."""
        self._forget_process(keeps_requests=keeps_requests)
        self.here = GroupEngine(GROUP, self.shape.config)
        self.here.load(self.log, now_ms=self.now_ms)
        if (adoption := self.here.state.adoption) is not None:
            guise = the_gateway().guise
            self._begin(Adopting(GROUP, guise, self.shape.config, found=adoption))

    def _forget_process(self, *, keeps_requests: bool) -> None:
        if keeps_requests:
            self.left_behind += [e.message for e in self.pending.values() if isinstance(e, Ask)]
        self.pending.clear()
        self.answers.clear()
        self.lanes.clear()
        self.recalled.clear()
        self.waiting.clear()
        self.relayed.clear()
        self.leader_id = self.machine = None
        for name in self.behind:
            if (sending := self.sendings.pop(name, None)) is not None and sending.route != "held":
                self.strays.append((sending, name))
            if self.asked.pop(name, None) is not None:
                self._consumer(name).miss(self.now_ms)

    # -- looking ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The state in one line."""
        group = self.upstream.describe()
        stage = self.machine.stage if self.machine is not None else self.treatment
        there = [each.member_id[:9] for each in group.members]
        told = [f"{self.now_ms - START_MS} ms", f"{stage}", f"upstream {group.group_state} {there}"]
        for name, consumer in self.consumers.items():
            if consumer is not None:
                numbers = sorted(partition.number for partition in consumer.claims)
                told.append(f"{name} ({consumer.kind}) has {numbers} at {consumer.epoch}")
        told += [f"{name} waits" for name in (*self.pending, *self.answers, *self.asked)]
        return "; ".join(told)

    def owns(self, consumer: Consumer, number: int) -> bool:
        """Whether the consumer has the partition, and nobody else may."""
        is_held = Partition(TOPIC_ID, number) in consumer.claims
        return is_held and self.now_ms < consumer.lease_over_ms

    def is_at_rest(self) -> bool:
        """Whether every consumer has its share, and nothing is under way."""
        if self.is_busy() or self.machine is not None or self.asked or self.sendings:
            return False
        running = [each for each in self.consumers.values() if each is not None]
        return all(
            consumer.is_fine and not consumer.has_something_to_say() for consumer in running
        ) and shares_are_fair(running, self.shape.partition_count)
