"""A small world: the shipped hosting machine with its engine and log, a broker, and consumers.

The machine has everything around it: its anchor, and the requests that it relays. The broker's
group is that of `broker_group.py`. Consumers send their requests through the gateway, or to the
cluster itself. Nothing happens by itself: `moves.py` lists what can happen next, and `play` makes
one of it happen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from coordinator.engine import GroupEngine, Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.load import has_members, newest
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import (
    ClassicGroupMember,
    ClassicMemberRemoval,
    DurableRecord,
    Member,
    MemberMetadata,
    RemovalCause,
    is_tombstone,
)
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.anchor import GENERATIONS_OF_A_CONSUMER
from gateway.hosting.answers import BY_MEMBERS, GroupApi, Situation, code_for
from gateway.hosting.calls import Forwarded
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
from gateway.hosting.identity import CLIENT_ID, AnchorIds
from gateway.hosting.move_requests import NewProtocol
from gateway.hosting.release import NATIVE_FIRST_MAX_MS
from gateway.hosting.standing import Found
from gateway.hosting.states import AnchorPhase
from gateway.requests.forwarding import shown_to_member
from gateway.requests.member_apis import why_withheld
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.simulation.broker import (
    API_KEYS,
    Sender,
    describe_classic,
    find_occupants,
    read_request,
)
from tests.simulation.broker_group import Answers, BrokerGroup
from tests.simulation.explorer.computing_consumer import ComputingConsumer
from tests.simulation.explorer.group_port import GroupPort, name_of_effect
from tests.simulation.explorer.numbers import (
    FIRST_GENERATION,
    FIRST_TOKEN,
    GROUP,
    START_MS,
    is_anchor,
)
from tests.simulation.explorer.promises import BrokenPromiseError, promise
from tests.simulation.explorer.replies import grants
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import (
    SESSION_TIMEOUT_MS,
    TOPIC_ID,
    ClassicConsumer,
    Consumer,
    Kind,
    MakeCommit,
    positions_of,
    shares_are_fair,
    start,
)
from tests.simulation.intruder import INTRUDER, join_of_intruder
from tests.simulation.messages import VERSION, answer_message, request_message
from tests.simulation.watch_members import removed_members

Move = str
"""Words: what happens, to what, and how."""

UNTIMELY = frozenset(
    {"slow", "late", "fail", "restart", "crash", "leave", "start", "lose", "hang", "reconfigure"}
    | {"pause"}
)
"""The first words of moves that excuse a rebalance of the consumers behind the gateway."""
TIMED_OUT = (
    RemovalCause.REVOCATION_TIMED_OUT,
    RemovalCause.JOIN_TIMED_OUT,
    RemovalCause.SYNC_TIMED_OUT,
)
"""Why a coordinator may remove a member that sends heartbeats."""
LOSSES = (RemovalCause.GROUP_TAKEN, RemovalCause.GENERATION_WENT_BACK)
"""Why the gateway removes all members."""
PAUSE_MS = 12_000
"""The length of a pause: longer than a session."""
UNOWNED_MAX_MS = SESSION_TIMEOUT_MS - 1
"""How long a partition may be without owner in a move without faults: a release costs no more than
an ordinary rebalance."""
UNOWNED_AFTER_FAULT_MAX_MS = 2 * SESSION_TIMEOUT_MS
"""How long it may be without owner after a fault, counted from the last fault or command: until the
session of a crashed member is over, and the others have rejoined. In a release, classic members
also wait for a native one that does not come."""
NO_NATIVES = NewProtocol(why_no_natives="the cluster does not have it")


@dataclass(slots=True, eq=False)
class Sending:
    """A commit of a consumer."""

    make: MakeCommit
    offsets: dict[int, int]
    token: Token = 0
    route: str = "held"
    """The ids under which it is on its way to the cluster: `relayed` with the member's own,
    `guarded` with those of the leader's member or of the anchor during a move, `hosted` with the
    anchor's; or `held`."""
    ids: AnchorIds | None = None
    is_stored: bool = False
    """Whether the cluster has stored it, and the gateway knows that."""


@dataclass(slots=True, eq=False)
class Passing:
    """A consumer's request to the gateway, and what becomes of its answer."""

    name: str
    api: GroupApi
    event: Request
    fate: str = ""
    """`lose-answer` or `late-answer`."""
    reply: Reply | None = None
    """The answer that is late."""
    is_confirmed: bool = False
    """Whether the cluster has confirmed the anchor since the engine decided."""
    is_of_lost_group: bool = False
    """Whether another client had the group since the consumer joined, or since the engine decided
    an answer that waits for its confirmation."""
    is_relayed: bool = False
    """Whether the cluster answers it."""
    is_late: bool = False
    """Whether its client uses another connection by now. The gateway has not seen the end of this
    one; it ends a call whose connection it sees closed."""


@dataclass(eq=False)
class World:
    """One state of the world."""

    shape: Shape
    budgets: dict[str, int]
    topics: Topics
    upstream: BrokerGroup
    """The group in the cluster."""
    offsets: list[int]
    """The committed offset of each partition."""
    port: GroupPort
    now_ms: int = START_MS
    replies: list[tuple[Token, Reply]] = field(default_factory=list)
    """Answers of the cluster that nobody has heard yet."""
    timed_out: list[str] = field(default_factory=list)
    """Members that the cluster has removed although they may have sent heartbeats."""
    runs: int = 1
    next_token: Token = FIRST_TOKEN
    consumers: dict[str, Consumer | None] = field(default_factory=dict)
    """By name; None is not running."""
    kinds: dict[str, Kind] = field(default_factory=dict)
    restarts_as: dict[str, Kind] = field(default_factory=dict)
    """The consumers that are closing in order to come back."""
    positions: dict[str, dict[int, int]] = field(default_factory=dict)
    """The next offset that each consumer reads, by the numbers of its partitions."""
    asked: dict[str, Token] = field(default_factory=dict)
    """The requests to which consumers await an answer."""
    passing: dict[Token, Passing] = field(default_factory=dict)
    """The requests to the gateway without an answer. Not every one is still awaited."""
    repeated: dict[Token, Request] = field(default_factory=dict)
    """Requests that wait on their connections for the answers to others."""
    overtaken: list[Token] = field(default_factory=list)
    """Those of them that the cluster has to answer, and has not received."""
    connections: dict[str, int] = field(default_factory=dict)
    """How many connections each consumer has closed."""
    sendings: dict[str, Sending] = field(default_factory=dict)
    strays: list[tuple[Sending, str]] = field(default_factory=list)
    """Commits on their way whose answers are lost, with the consumers that sent them."""
    log: tuple[DurableRecord, ...] = ()
    pending: dict[str, Awaited] = field(default_factory=dict)
    """The machine's effects that have not been carried out, by name."""
    lanes: dict[Token, str] = field(default_factory=dict)
    """The machine's requests that the coordinator has parked, and their effects' names."""
    asking: dict[str, Awaited] = field(default_factory=dict)
    """The effects of these requests, and of looks whose answers are late."""
    answers: dict[str, Struct | Found] = field(default_factory=dict)
    """The answers to those that have not arrived."""
    left_behind: list[Struct] = field(default_factory=list)
    """Requests whose answers nobody awaits, and which the coordinator has not received."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The newest offset of each partition of which a consumer knows that it is stored."""
    is_excused: bool = False
    """Whether something has happened after which consumers may see a rebalance."""
    has_fault: bool = False
    """Whether something has happened after which a commit may be refused."""
    forwards: bool = False
    """Whether the group is in `groups_forward`."""
    has_strangers: bool = False
    """Whether an intruder was in the group in the cluster."""
    unowned_ms: dict[int, int] = field(default_factory=dict)
    """Since when each partition has no owner, but not before the last command or fault."""

    # -- what is open ----------------------------------------------------------------------------

    @property
    def here(self) -> GroupEngine:
        """The gateway's engine."""
        return self.port.engine

    @property
    def behind(self) -> list[str]:
        """The consumers behind the gateway."""
        return [name for name, _kind in self.shape.consumers]

    def may_ask(self, name: str, consumer: Consumer) -> bool:
        """Whether it may send a request now."""
        is_due = consumer.has_something_to_say() or consumer.beat_due_ms <= self.now_ms
        return name not in self.asked and is_due

    @property
    def may_adopt(self) -> bool:
        """Whether an operator may adopt the group now."""
        return not (self.port.is_moving or self.port.is_live or self.is_anchored)

    @property
    def may_release(self) -> bool:
        """Whether an operator may release the group now."""
        return not (self.port.is_moving or self.port.is_released)

    @property
    def is_anchored(self) -> bool:
        """Whether only an anchor is in the group in the cluster."""
        members = self.members_in_cluster
        return bool(members) and all(map(is_anchor, members))

    @property
    def members_in_cluster(self) -> Mapping[str, ClassicGroupMember | Member]:
        """The members of the group in the cluster."""
        return {} if self.upstream.state is None else self.upstream.state.members

    @property
    def has_intruder(self) -> bool:
        """Whether the intruder is in the group in the cluster."""
        return any(member.client_id == INTRUDER for member in self.members_in_cluster.values())

    @property
    def generation(self) -> int:
        """The generation or the epoch of the group in the cluster."""
        match self.upstream.state:
            case ClassicGroup() as group:
                return group.core.generation
            case ConsumerGroup() as group:
                return group.epoch
            case None:
                return FIRST_GENERATION

    @property
    def new_protocol(self) -> NewProtocol:
        """Whether the cluster takes native members."""
        return NewProtocol() if self.shape.profile.has_native_members else NO_NATIVES

    def storing(self) -> list[str]:
        """The consumers whose commits are on their way to the cluster."""
        return [name for name, sending in self.sendings.items() if sending.route != "held"]

    def is_drained(self) -> bool:
        """Whether nothing is under way that was relayed."""
        return not (
            any(passing.is_relayed for passing in self.passing.values())
            or any(
                sending.route == "relayed" and name in self.behind
                for name, sending in self.sendings.items()
            )
        )

    def may_carry_out(self, name: str) -> bool:
        """Whether an effect can be answered now."""
        return not isinstance(self.pending[name], Hold) or self.is_drained()

    def is_busy(self) -> bool:
        """Whether an answer is about to come."""
        return bool(
            any(map(self.may_carry_out, self.pending))
            or self.answers
            or self.left_behind
            or self.overtaken
            or self.storing()
            or any(passing.reply is not None for passing in self.passing.values())
        )

    # -- time ------------------------------------------------------------------------------------

    def is_time_up(self) -> bool:
        """Whether the machine has to be told that time has passed."""
        at_ms = self.port.next_ms()
        return at_ms is not None and at_ms <= self.now_ms

    def may_wait(self) -> bool:
        """Whether nothing is due before time passes, and something waits for time."""
        is_due = any(
            consumer is not None and name not in self.asked and consumer.beat_due_ms <= self.now_ms
            for name, consumer in self.consumers.items()
        )
        is_missed = not self.shape.is_away_long and any(
            self.consumers[name] is None for name in self.restarts_as
        )
        is_nothing_due = not (self.is_time_up() or is_due or is_missed)
        return is_nothing_due and self._next_ms() is not None

    def _next_ms(self) -> int | None:
        times = [self.upstream.next_ms(), self.port.next_ms()]
        times += [
            consumer.beat_due_ms
            for name, consumer in self.consumers.items()
            if consumer is not None and name not in self.asked
        ]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _wait(self, *, is_pause: bool = False) -> None:
        next_ms = self.now_ms + PAUSE_MS if is_pause else self._next_ms()
        assert next_ms is not None
        self.now_ms = max(self.now_ms, next_ms)
        self._keep_intruder()
        self._answer(self.upstream.pass_time(self.topics, self.now_ms))
        if not self.shape.takes_time:  # otherwise the age of the latest look tells states apart
            self.port.refresh(self._look(), self.now_ms)

    # -- moves -----------------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        """Make a move. Raises BrokenPromiseError."""
        verb, _, what = move.partition(" ")
        is_untimely = verb.partition("-")[0] in UNTIMELY
        self.is_excused |= is_untimely or verb == "release"
        self.has_fault |= is_untimely
        if is_untimely or verb in ("adopt", "release"):
            self.unowned_ms = dict.fromkeys(self.unowned_ms, self.now_ms)
        try:
            self._play(verb, what)
            self._settle()
        except BrokenPromiseError:
            raise
        except Exception as error:
            raise BrokenPromiseError(f"something fails: {error!r}") from error
        self._note_owners()

    def _play(self, verb: str, what: str) -> None:  # one case for each move
        match verb:
            case "send":
                self._send(what)
            case "lose-answer" | "late-answer":
                self._send(what, fate=verb)
            case "lose":
                self.port.abandon(self.asked[what], self.now_ms)
                del self.passing[self.asked[what]]
                self._miss(what)
            case "start" | "return":
                kind = self.kinds[what] = self.restarts_as.pop(what, self.kinds[what])
                self.consumers[what] = self._process(what, kind)
            case "crash":
                self._end(what)
            case "leave" | "switch":
                self._close(what, comes_back=verb == "switch")
            case "hang-up":
                self.passing[self.asked.pop(what)].is_late = True
                self.connections[what] = self.connections.get(what, 0) + 1
                self._consumer(what).miss(self.now_ms)
            case "relay":
                self._ask_cluster(self.passing[self.overtaken.pop(int(what))].event)
            case "commit":
                self._commit(what)
            case "store" | "lose-stored" | "lose-stray":
                self._store(what, verb)
            case "land":
                sending, name = self.strays.pop(int(what))
                self._store_in_cluster(name, sending)
            case "adopt":
                self.port.adopt(self.now_ms)
            case "release":
                self.port.release(self.new_protocol, self.now_ms)
            case "tick":
                self.port.pass_time(self.now_ms)
                promise(not self.is_time_up(), "the machine waits for a time that has passed")
            case "wait" | "slow" | "pause":
                self._wait(is_pause=verb == "pause")
            case "arrive":
                self._arrive(self.left_behind.pop(int(what)), "")
            case "hear" if what in self.consumers:
                passing = self.passing.pop(token := self.asked[what])
                assert passing.reply is not None
                self._hear(what, token, passing.reply)
            case "hear":
                self.port.done(self.asking.pop(what), self.answers.pop(what), self.now_ms)
            case "intrude":
                self._intrude()
            case "remove":
                self._remove(lambda member: is_anchor(member.member_id))
            case "withdraw":
                self._remove(lambda member: member.client_id == INTRUDER)
            case "restart":
                self._restart(what)
            case "reconfigure":
                self.forwards = not self.forwards
                self._restart("")
            case _:
                self._carry_out(verb, what)

    def _settle(self) -> None:
        """Let everybody hear what was answered, relay what the cluster has to answer, and carry out
        what takes no time."""
        while self._hear_upstream() or self._hear_gateway() or self._carry_out_at_once():
            pass

    def _hear_upstream(self) -> bool:
        is_news = bool(self.replies or self.timed_out)
        while self.timed_out:
            self._fence(self.timed_out.pop())
        replies, self.replies = self.replies, []
        for token, reply in replies:
            if (effect_name := self.lanes.pop(token, None)) is not None:
                self.answers[effect_name] = answer_message(reply)
            elif (passing := self.passing.pop(token, None)) is not None:
                connection = self._connection(passing.name)
                self.port.relayed(passing.name, connection, passing.event, reply, self.now_ms)
                self._answer_consumer(passing, self._masked(passing, reply))
            else:
                name = next((n for n, asked in self.asked.items() if asked == token), None)
                if name is not None:
                    self._hear(name, token, reply)
        return is_news

    def _masked(self, passing: Passing, reply: Reply) -> Reply:
        """The reply that the gateway passes on, by the rules of `gateway/requests`."""
        message = request_message(passing.event, GROUP)
        answer = shown_to_member(message, VERSION, answer_message(reply))
        code = ErrorCode(getattr(answer, "error_code", 0))
        situation = why_withheld(answer, is_moving=self.port.is_moving)
        is_forwarded = situation is Situation.HOLDER_CHANGED and self.port.is_forwarded(
            self._look(), self.now_ms
        )
        if situation is not None and not is_forwarded:
            code = code_for(situation, passing.api)
        return reply if code == reply.error else passing.event.refuse(GroupError(code, ""))

    def _hear_gateway(self) -> bool:
        for _loss in self.port.take_losses():
            promise(self._may_be_taken(), "the group is given up though nobody else has it")
            self._void_leases()
        answers = self.port.take_answers(self.now_ms)
        committers = {sending.token: name for name, sending in self.sendings.items()}
        for token, answer in answers:
            name = committers.get(token)
            match answer:
                case Forwarded() if name is not None:
                    self.sendings[name].route = "relayed"
                case Forwarded() if self.has_intruder:  # it would join as well
                    passing = self.passing.pop(token)
                    refusal = GroupError(ErrorCode.UNKNOWN_MEMBER_ID, "")
                    self._answer_consumer(passing, passing.event.refuse(refusal))
                case Forwarded():
                    passing = self.passing[token]
                    passing.is_relayed = True
                    if passing.is_late and self._has_newer(passing):
                        self.overtaken.append(token)
                    else:
                        self._ask_cluster(passing.event)
                case int(code):
                    if name is not None:
                        self._committed(name, self.sendings[name], code)
                case None:
                    del self.passing[token]
                case reply:
                    self._answer_consumer(self.passing.pop(token), reply)
        for name, sending in self.sendings.items():
            if name in self.behind and sending.route == "held":
                sending.route, sending.ids = self.port.store_under(sending.token)
        return bool(answers)

    def _answer_consumer(self, passing: Passing, reply: Reply) -> None:
        name, token = passing.name, passing.event.token
        if not (passing.is_relayed or self.port.is_moving) and grants(reply):
            promise(passing.is_confirmed, f"{name} gets partitions from an anchor in doubt")
        if passing.is_of_lost_group and not self.port.is_loss_postponed:
            promise(reply.error, f"{name} goes on as a member, though somebody else had the group")
        match passing.fate:
            case "lose-answer":
                self._miss(name)
            case "late-answer":
                passing.reply = reply
                self.passing[token] = passing
            case _:
                self._hear(name, token, reply)

    def _has_newer(self, late: Passing) -> bool:
        """Whether the gateway holds a newer request of the same consumer. Relayed at the same time
        on two connections, they may arrive in either order; otherwise the older one is ahead."""
        return any(
            passing.name == late.name and passing is not late for passing in self.passing.values()
        )

    def _carry_out_at_once(self) -> bool:
        """Carry out one of the effects that take no time."""
        for effect in self.port.take_effects():
            name = name_of_effect(effect)
            if isinstance(effect, Ask) and isinstance(effect.message, HeartbeatRequest):
                taken = (*self.pending, *self.asking)
                name += "+" * sum(other.startswith(name) for other in taken)
            promise(name not in self.pending, f"there are two effects {name} at a time")
            self.pending[name] = effect
        if self.shape.takes_time:
            return False
        for name, effect in self.pending.items():
            if _is_fast(effect):
                self._carry_out("answer", name)
                return True
        return False

    def _fence(self, member_id: str) -> None:
        """As with Kafka, a member that did not rejoin in time owns nothing, and learns it later."""
        for consumer in self.consumers.values():
            if consumer is not None and consumer.member_id == member_id:
                consumer.is_fenced, consumer.lease_over_ms = True, 0

    # -- the loss of a group ---------------------------------------------------------------------

    def _may_be_taken(self) -> bool:
        """Whether another client had the group, or the anchor cannot tell: if it was removed twice,
        as many generations have begun as with a consumer."""
        held = self.port.held_generation
        begun = self.generation - held if held is not None else 0
        return self.has_strangers or begun >= GENERATIONS_OF_A_CONSUMER

    def _void_leases(self) -> None:
        """The members are fenced without a word to them, because another client has the group: each
        learns it with its next heartbeat (DEV D36)."""
        for consumer in self.consumers.values():
            if consumer is not None:
                consumer.lease_over_ms = self.now_ms
                consumer.has_lost_group = consumer.epoch > 0
        for token, passing in self.passing.items():
            passing.is_of_lost_group |= self.port.is_confirming(token)

    def _intrude(self) -> None:
        """A consumer joins the empty group in the cluster."""
        self.has_strangers = True
        token = self._token()
        join = join_of_intruder(token, SESSION_TIMEOUT_MS)
        self._ask_cluster(join)
        (member_id,) = self.members_in_cluster
        sync = SyncGroupReceived(
            token=self._token(),
            version=3,
            member_id=member_id,
            instance_id=None,
            generation=self.generation,
            protocol_type=None,
            protocol_name=None,
            assignments=(),
        )
        self._ask_cluster(sync)

    def _keep_intruder(self) -> None:
        if self.has_intruder:
            (member_id,) = self.members_in_cluster
            self._ask_cluster(
                HeartbeatReceived(
                    token=self._token(),
                    member_id=member_id,
                    instance_id=None,
                    generation=self.generation,
                )
            )

    def _remove(self, concerns: Callable[[ClassicGroupMember | Member], bool]) -> None:
        """Members leave the group in the cluster, or an admin removes them."""
        leavers = tuple(
            Leaver(member_id=member.member_id, instance_id=member.instance_id)
            for member in self.members_in_cluster.values()
            if concerns(member)
        )
        self._ask_cluster(LeaveGroupReceived(token=self._token(), members=leavers))

    # -- consumers -------------------------------------------------------------------------------

    def _process(self, name: str, kind: Kind) -> Consumer:
        if kind is Kind.NATIVE and self.shape.config.client_side_assignors:
            return ComputingConsumer(name=name, beat_due_ms=self.now_ms)
        return start(name, kind, self.topics, self.now_ms, is_static=self.shape.are_static)

    def _close(self, name: str, *, comes_back: bool) -> None:
        if comes_back:
            is_native = self.kinds[name] is Kind.NATIVE
            self.restarts_as[name] = self.shape.classic if is_native else Kind.NATIVE
        self._consumer(name).close(self.now_ms)
        self.positions.pop(name, None)

    def _consumer(self, name: str) -> Consumer:
        consumer = self.consumers[name]
        assert consumer is not None, f"{name} is not running"
        return consumer

    def _token(self) -> Token:
        self.next_token += 1
        return self.next_token

    def _send(self, name: str, fate: str = "") -> None:
        consumer = self._consumer(name)
        if consumer.is_closing and not consumer.member_id:
            self._end(name)
            return
        token = self._token()
        api, event = consumer.ask(token, UUID(int=token), self.now_ms)
        if isinstance(consumer, ClassicConsumer) and consumer.joins_twice:
            consumer.joins_twice = False
            assert isinstance(event, JoinGroupReceived)
            token = self._token()
            self.repeated[event.token] = replace(event, token=token, fresh_id=UUID(int=token))
        self.asked[name] = token
        is_of_lost_group = consumer.has_lost_group and api in BY_MEMBERS
        self._pass_on(Passing(name, api, event, fate=fate, is_of_lost_group=is_of_lost_group))

    def _pass_on(self, passing: Passing) -> None:
        name, event = passing.name, passing.event
        if name in self.behind:
            self.passing[event.token] = passing
            self.port.request(passing.api, event, self._connection(name), self.now_ms)
        else:
            self._ask_cluster(event)

    def _connection(self, name: str) -> int:
        """The number of the consumer's connection; later ones have higher numbers."""
        return 1 + self.behind.index(name) + len(self.behind) * self.connections.get(name, 0)

    def _hear(self, name: str, token: Token, reply: Reply) -> None:
        if (again := self.repeated.pop(token, None)) is not None:
            self._pass_on(Passing(name, GroupApi.JOIN, again))
        if self.asked.get(name) != token:
            return
        del self.asked[name]
        consumer = self._consumer(name)
        before = set(consumer.claims)
        consumer.hear(reply, self.now_ms)
        if name in self.behind:
            promise(
                not consumer.died_of or self.has_strangers,
                f"{name} ends because of {consumer.died_of}",
            )
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

    def _miss(self, name: str) -> None:
        """There is no answer to the consumer's request."""
        self.asked.pop(name, None)
        consumer = self._consumer(name)
        consumer.miss(self.now_ms)
        if consumer.is_over:
            self._end(name)

    def _take_positions(self, name: str) -> None:
        before = self.positions.pop(name, {})
        if positions := positions_of(self.consumers[name], before, self.offsets):
            self.positions[name] = positions

    def _end(self, name: str) -> None:
        """The process is gone, and so are its connections."""
        self.consumers[name] = None
        self.positions.pop(name, None)
        self.asked.pop(name, None)
        for token, passing in list(self.passing.items()):
            if passing.name == name:
                del self.passing[token]
                if token in self.overtaken:
                    self.overtaken.remove(token)
                self.port.abandon(token, self.now_ms)
        if (sending := self.sendings.pop(name, None)) is not None:
            if sending.route != "held":
                self.strays.append((sending, name))
            self.port.abandon(sending.token, self.now_ms)

    # -- commits ---------------------------------------------------------------------------------

    def _commit(self, name: str) -> None:
        consumer = self._consumer(name)
        offsets = {number: offset + 1 for number, offset in self.positions[name].items()}
        self.positions[name] = dict(offsets)
        make = MakeCommit(
            member_id=consumer.member_id,
            epoch=consumer.epoch,
            numbers=tuple(offsets),
            instance_id=getattr(consumer, "instance_id", None),
        )
        sending = self.sendings[name] = Sending(make, offsets, self._token())
        if name in self.behind:
            self.port.commit(sending.token, make, self._connection(name), self.now_ms)
        else:
            sending.route = "relayed"

    def _store(self, name: str, how: str) -> None:
        sending = self.sendings[name]
        is_own = sending.route == "relayed"
        if how == "lose-stray":
            self.strays.append((replace(sending), name))
            code = None
        else:
            code = self._store_in_cluster(name, sending)
            sending.is_stored = how == "store" and not code
            code = code if how == "store" else None
        if is_own:
            lost = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._committed(name, sending, lost if code is None else code)
            return
        sending.route = "held"
        self.port.stored(sending.token, code, self.now_ms)
        if code and sending.ids is not None:
            promise(
                self.has_fault or not self.port.is_moving,  # otherwise it is sent again
                f"a commit of {name} under the anchor's ids gets {ErrorCode(code).name}",
            )

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
        before = list(self.offsets)
        code = self._check_in_cluster(commit)
        if not code:
            for number, offset in sending.offsets.items():
                self.offsets[number] = offset
                promise(offset >= before[number], f"the offset of {number} goes back")
                for other, positions in self.positions.items():
                    if other != name and self.owns(self._consumer(other), number):
                        promise(
                            positions.get(number, offset) >= offset,
                            f"{other} began to read {number} before the commit of another was"
                            " stored",
                        )
        return code

    def _committed(self, name: str, sending: Sending, code: int) -> None:
        del self.sendings[name]
        if not code and sending.is_stored:
            for number, offset in sending.offsets.items():
                self.acknowledged[number] = max(offset, self.acknowledged.get(number, 0))
        elif name in self.behind:
            promise(self.is_excused, f"a commit of {name} gets {ErrorCode(code).name}")

    # -- the machine's effects -------------------------------------------------------------------

    def _carry_out(self, how: str, name: str) -> None:
        effect = self.pending.pop(name)
        match effect:
            case AskCoordinator(message) | Ask(_, message):
                self._carry_out_request(how, name, effect, message)
            case Write(batch):
                if how in ("answer", "fail-after"):
                    self._write(batch.durable)
                if how == "answer":
                    self.port.done(effect, None, self.now_ms)
                else:
                    self.port.failed(effect, self.now_ms, is_uncertain=how != "fail")
            case _ if how == "fail":
                self.port.failed(effect, self.now_ms)
            case Look() if how == "late":
                self.asking[name], self.answers[name] = effect, self._look()
            case _:
                self.port.done(effect, self._result(effect), self.now_ms)

    def _result(self, effect: Awaited) -> object:
        match effect:
            case Look():
                return self._look()
            case Describe():
                return self.describe()
            case Load():
                engine = GroupEngine(GROUP, self.port.group.rules.config_of(GROUP))
                engine.load(self.log, now_ms=self.now_ms)
                return engine
            case Forget() | Hold():
                return None
            case _:
                raise TypeError(f"{effect} does not occur in a small world")

    def _carry_out_request(self, how: str, name: str, effect: Awaited, message: Struct) -> None:
        match how:
            case "answer" | "late":
                self.asking[name] = effect
                self._arrive(message, name)
                if how == "answer" and name in self.answers:  # it was not parked
                    self.port.done(self.asking.pop(name), self.answers.pop(name), self.now_ms)
            case "fail-answer":
                self._arrive(message, "")
                self.port.failed(effect, self.now_ms)
            case "delay":
                self.left_behind.append(message)
                self.port.failed(effect, self.now_ms)
            case _:
                self.port.failed(effect, self.now_ms)

    def _arrive(self, message: Struct, name: str) -> None:
        """Let the coordinator receive a message. It may park it. `name`: the effect that awaits the
        answer; empty if none does."""
        if isinstance(message, DescribeGroupsRequest):
            if name:
                self.answers[name] = DescribeGroupsResponse(groups=(self.describe(),))
            return
        token = self._token()
        self._ask_cluster(self._read(token, message))
        self._drop_strays()
        for position, (answered, reply) in enumerate(self.replies):
            if answered == token:
                del self.replies[position]
                self._confirm(reply)
                if name:
                    self.answers[name] = answer_message(reply)
                return
        if name:
            self.lanes[token] = name

    def _confirm(self, reply: Reply) -> None:
        """The cluster has accepted a request of the anchor."""
        if not reply.error:
            for token, passing in self.passing.items():
                passing.is_confirmed |= self.port.is_confirming(token)

    def _drop_strays(self) -> None:
        """Forget commits under the ids of anchors that never return."""
        present = (self.generation, *self.members_in_cluster)
        self.strays = [
            (sending, name)
            for sending, name in self.strays
            if sending.ids is None
            or (sending.ids.generation in present and sending.ids.member_id in present)
        ]

    def _look(self) -> Found:
        takes_natives = self.shape.profile.has_native_members
        return find_occupants(self.upstream.state, self.describe, takes_natives=takes_natives)

    def describe(self) -> DescribedGroup:
        """The group in the cluster as DescribeGroups shows it."""
        group = self.upstream.state
        if not isinstance(group, ClassicGroup):
            return DescribedGroup(group_id=GROUP, group_state="Dead")
        shows_assignments = self.shape.profile.shows_assignments_in_rounds
        return describe_classic(GROUP, group, shows_assignments=shows_assignments)

    def _ask_cluster(self, event: Request) -> None:
        """Have the cluster handle a request. Its answer, and others, are in `replies`. A delay of
        no time is over before anything else happens."""
        self._answer(self.upstream.handle(event, self.topics, self.now_ms))
        self._answer(self.upstream.pass_time(self.topics, self.now_ms))

    def _answer(self, answers: Answers) -> None:
        self.replies += [(token, reply) for token, reply in answers if reply is not None]

    def _check_in_cluster(self, commit: OffsetCommitReceived) -> ErrorCode:
        ((_token, verdict),) = self.upstream.handle(commit, self.topics, self.now_ms)
        assert verdict is not None
        return verdict.error

    def note_step_of_cluster(self, step: Step) -> None:
        """Note whom the cluster has removed because it has not rejoined in time."""
        removed = removed_members(step).items()
        self.timed_out += [member_id for member_id, cause in removed if cause in TIMED_OUT]

    def _read(self, token: Token, message: Struct) -> Request:
        version = self.shape.profile.versions[API_KEYS[type(message)]]
        return read_request(message, Sender(CLIENT_ID), token, version)  # type: ignore[arg-type]

    def _write(self, records: Sequence[DurableRecord]) -> None:
        for record in records:
            if isinstance(record, MemberMetadata | ClassicMemberRemoval):
                if record.cause in TIMED_OUT:
                    self._fence(record.member_id)
                elif record.cause in LOSSES:
                    self._void_leases()  # again, if the log did not take it at first
        written = newest((*self.log, *records))
        self.log = tuple(record for record in written if not is_tombstone(record))

    def _restart(self, how: str) -> None:
        """The gateway is killed, and another process begins with its log. What it has `sent` to the
        coordinator will arrive, and what it has `written` is in the log."""
        for effect in self.pending.values():
            match effect:
                case AskCoordinator(message) | Ask(_, message) if how == "sent":
                    self.left_behind.append(message)
                case Write(batch) if how == "written":
                    self._write(batch.durable)
                case _:
                    pass
        for table in (self.pending, self.answers, self.asking, self.lanes, self.passing):
            table.clear()
        self.overtaken.clear()
        for name in self.behind:
            if (sending := self.sendings.pop(name, None)) is not None and sending.route != "held":
                self.strays.append((sending, name))
            if name in self.asked:
                self._miss(name)
        if has_members(self.log):
            for consumer in self.consumers.values():
                if consumer is not None:
                    consumer.has_lost_group = False  # what only the killed process knew (DEV D36)
        self.runs += 1
        self.port = GroupPort.start(self.shape, self.runs, self.topics, forwards=self.forwards)
        self.port.resume(self.log, self.new_protocol, self.now_ms)

    # -- looking ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The state in one line."""
        group = self.describe()
        there = [member.member_id[:9] for member in group.members]
        parts = [
            f"{self.now_ms - START_MS} ms",
            f"{self.port.stage or ('hosted' if self.port.is_live else 'forwarded')}",
            f"upstream {group.group_state} {there}",
        ]
        for name, consumer in self.consumers.items():
            if consumer is not None:
                numbers = sorted(partition.number for partition in consumer.claims)
                parts.append(f"{name} ({consumer.kind}) has {numbers} at {consumer.epoch}")
        parts += [f"{name} waits" for name in (*self.pending, *self.answers, *self.asked)]
        return "; ".join(parts)

    def owns(self, consumer: Consumer, number: int) -> bool:
        """Whether the consumer has the partition, and nobody else may."""
        is_held = Partition(TOPIC_ID, number) in consumer.claims
        return is_held and self.now_ms < consumer.lease_over_ms

    @property
    def unowned_max_ms(self) -> int:
        """How long a partition may be without owner now."""
        if not self.has_fault:
            return UNOWNED_MAX_MS
        has_natives = Kind.NATIVE in self.kinds.values()
        return UNOWNED_AFTER_FAULT_MAX_MS + has_natives * NATIVE_FIRST_MAX_MS

    def _note_owners(self) -> None:
        if not self.shape.moves_group:
            return
        running = [consumer for consumer in self.consumers.values() if consumer is not None]
        for number in range(self.shape.partition_count):
            if not running or any(self.owns(consumer, number) for consumer in running):
                self.unowned_ms.pop(number, None)
            else:
                self.unowned_ms.setdefault(number, self.now_ms)

    def is_at_rest(self) -> bool:
        """Whether every consumer has its share, and nothing is under way. With an intruder in the
        group the consumers have nothing: they would join it in the cluster, which is not played."""
        is_open = self.is_busy() or self.port.is_moving or self.asked or self.passing
        if is_open or self.sendings or self.pending or self.here.state.commits or self.restarts_as:
            return False
        running = [consumer for consumer in self.consumers.values() if consumer is not None]
        if self.has_intruder:
            return not any(consumer.claims for consumer in running)
        if self.port.is_live and self.port.anchor is not AnchorPhase.STABLE:
            return False
        return all(
            consumer.is_fine and not consumer.has_something_to_say() for consumer in running
        ) and shares_are_fair(running, self.shape.partition_count)


def _is_fast(effect: Awaited) -> bool:
    """Whether the effect takes no time in a world that is not slow."""
    match effect:
        case Look() | Load() | Forget():
            return True
        case AskCoordinator(HeartbeatRequest()):
            return True
        case _:
            return False
