"""A small world: the shipped hosting machine with its engine and log, a broker, and consumers.

The machine has everything around it: its anchor, and the requests that it relays. The broker's
group is that of `broker_group.py`. Consumers send their requests through the gateway, or to the
cluster itself. Nothing happens by itself: `moves.py` lists what can happen next, and `play` makes
one of it happen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.engine import GroupEngine, Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import (
    OffsetCommitReceived,
    Request,
)
from coordinator.interface.records import (
    ClassicGroupMember,
    DurableRecord,
    Member,
    RemovalCause,
)
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi
from gateway.hosting.effects import (
    Awaited,
    Hold,
)
from gateway.hosting.identity import CLIENT_ID, AnchorIds
from gateway.hosting.lookup_outcome import LookupOutcome
from gateway.hosting.move_requests import NewProtocol
from gateway.hosting.release import NATIVE_FIRST_MAX_MS
from gateway.hosting.states import AnchorPhase
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker import (
    API_KEYS,
    Sender,
    describe_classic,
    find_occupants,
    read_request,
)
from tests.simulation.broker_group import Answers, BrokerGroup
from tests.simulation.explorer.group_port import GroupPort
from tests.simulation.explorer.numbers import (
    FIRST_GENERATION,
    FIRST_TOKEN,
    GROUP,
    START_MS,
    is_anchor,
)
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import (
    SESSION_TIMEOUT_MS,
    TOPIC_ID,
    Consumer,
    Kind,
    MakeCommit,
    shares_are_fair,
)
from tests.simulation.intruder import INTRUDER
from tests.simulation.watch_members import removed_members

Move = str
"""Words: what happens, to what, and how."""

TIMED_OUT = (
    RemovalCause.REVOCATION_TIMED_OUT,
    RemovalCause.JOIN_TIMED_OUT,
    RemovalCause.SYNC_TIMED_OUT,
)
"""Why a coordinator may remove a member that sends heartbeats."""
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
    """Whether its client has moved to another connection. The gateway has not seen the end of this
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
    """Answers of the cluster that have not been delivered yet."""
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
    """The requests that the cluster has to answer, and has not received."""
    connections: dict[str, int] = field(default_factory=dict)
    """How many connections each consumer has closed."""
    sendings: dict[str, Sending] = field(default_factory=dict)
    strays: list[tuple[Sending, str]] = field(default_factory=list)
    """Commits on their way whose answers are lost, with the consumers that sent them."""
    log: tuple[DurableRecord, ...] = ()
    pending: dict[str, Awaited] = field(default_factory=dict)
    """The machine's effects that have not been carried out, by name."""
    requesters: dict[Token, str] = field(default_factory=dict)
    """The machine's requests that the coordinator has parked, and their effects' names."""
    asking: dict[str, Awaited] = field(default_factory=dict)
    """The effects of these requests, and of looks whose answers are late."""
    answers: dict[str, Struct | LookupOutcome] = field(default_factory=dict)
    """The answers to those that have not arrived."""
    left_behind: list[Struct] = field(default_factory=list)
    """Requests whose answers are not awaited, and which the coordinator has not received."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The newest offset of each partition that a consumer knows to be stored."""
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
        is_missed = not self.shape.is_away_long and any(
            self.consumers[name] is None for name in self.restarts_as
        )
        is_nothing_due = not (self.is_time_up() or self._is_consumer_due() or is_missed)
        return is_nothing_due and self.next_ms() is not None

    def may_sleep(self) -> bool:
        """Whether time may pass though a consumer has to send a request: its process is stopped,
        for less than a session at a time."""
        later_ms = self.next_ms(after_ms=self.now_ms)
        is_short = later_ms is not None and later_ms < self.now_ms + SESSION_TIMEOUT_MS
        return is_short and self._is_consumer_due() and not self.is_time_up()

    def _is_consumer_due(self) -> bool:
        return any(
            consumer is not None and name not in self.asked and consumer.beat_due_ms <= self.now_ms
            for name, consumer in self.consumers.items()
        )

    def next_ms(self, *, after_ms: int = 0) -> int | None:
        """The next time after `after_ms` that a party waits for."""
        times = [self.upstream.next_ms(), self.port.next_ms()]
        times += [
            consumer.beat_due_ms
            for name, consumer in self.consumers.items()
            if consumer is not None and name not in self.asked
        ]
        later = (at_ms for at_ms in times if at_ms is not None and at_ms > after_ms)
        return min(later, default=None)

    # -- consumers -------------------------------------------------------------------------------

    def consumer(self, name: str) -> Consumer:
        consumer = self.consumers[name]
        assert consumer is not None, f"{name} is not running"
        return consumer

    def new_token(self) -> Token:
        self.next_token += 1
        return self.next_token

    def connection(self, name: str) -> int:
        """The number of the consumer's connection; later ones have higher numbers."""
        return 1 + self.behind.index(name) + len(self.behind) * self.connections.get(name, 0)

    # -- the machine's effects -------------------------------------------------------------------

    def look(self) -> LookupOutcome:
        takes_natives = self.shape.profile.has_native_members
        return find_occupants(self.upstream.state, self.describe, takes_natives=takes_natives)

    def describe(self) -> DescribedGroup:
        """The group in the cluster as DescribeGroups shows it."""
        group = self.upstream.state
        if not isinstance(group, ClassicGroup):
            return DescribedGroup(group_id=GROUP, group_state="Dead")
        shows_assignments = self.shape.profile.shows_assignments_in_rounds
        return describe_classic(GROUP, group, shows_assignments=shows_assignments)

    def ask_cluster(self, event: Request) -> None:
        """Have the cluster handle a request. Its answer, and others, are in `replies`. A delay of
        no time is over before anything else happens."""
        self.record_answers(self.upstream.handle(event, self.topics, self.now_ms))
        self.record_answers(self.upstream.pass_time(self.topics, self.now_ms))

    def record_answers(self, answers: Answers) -> None:
        self.replies += [(token, reply) for token, reply in answers if reply is not None]

    def check_in_cluster(self, commit: OffsetCommitReceived) -> ErrorCode:
        ((_token, decision),) = self.upstream.handle(commit, self.topics, self.now_ms)
        assert decision is not None
        return decision.error

    def record_step_of_cluster(self, step: Step) -> None:
        """Note whom the cluster has removed because it has not rejoined in time."""
        removed = removed_members(step).items()
        self.timed_out += [member_id for member_id, cause in removed if cause in TIMED_OUT]

    def read(self, token: Token, message: Struct) -> Request:
        version = self.shape.profile.versions[API_KEYS[type(message)]]
        return read_request(message, Sender(CLIENT_ID), token, version)  # type: ignore[arg-type]

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
