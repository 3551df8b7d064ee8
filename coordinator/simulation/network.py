"""Connections between clients and the gateway, and everything that goes wrong on them.

A connection keeps the order of its requests, and the next one is not looked at before the last was
answered. When it breaks, a request may be lost, its answer may be lost, or it arrives late: after
what the client has sent on its next connection. An error may take the place of an answer, whose
step was applied all the same. Commits and fetches go on to the cluster.
"""

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from coordinator.consumer.validation import JOIN_EPOCH
from coordinator.errors import GroupError
from coordinator.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetFetchReceived,
    Request,
)
from coordinator.replies import ConsumerHeartbeatReply, JoinGroupReply, Reply, SyncGroupReply
from coordinator.simulation.cluster import Cluster, Commit
from coordinator.simulation.driver import Answer, Driver
from coordinator.simulation.world import World
from coordinator.topics import Partition
from kafka_codecs.error_codes import ErrorCode

DELAY_MS_MAX = 40
LATE_MS_MAX = 8_000
"""How much later than sent a request may arrive, on a connection that its client gave up."""
LATE_TO_HARM_MS_MAX = 600
ADMIN = "admin"
"""The name of the one client that is no consumer."""
SLOW_MS_MAX = 3_000
"""How long an answer may take on a machine that is busy; those behind it wait as well."""
UNCONFIRMED = GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the anchor is unconfirmed")
NOTICE_MS_MAX = 500
"""How long a client takes to notice that its connection broke."""
RENEWAL_MS_MAX = 3_000
"""How long the gateway takes to make the cluster refuse a commit whose answer was lost."""
ERRORS_INSTEAD = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""What the gateway says when it lost the group, or its cluster, after it had decided."""


class Fate(Enum):
    """What becomes of one request."""

    FINE = auto()
    LOST = auto()
    LATE = auto()
    ANSWER_LOST = auto()
    SLOW = auto()
    """Answered later than some clients wait."""
    ERROR_INSTEAD = auto()


@dataclass(eq=False, slots=True, kw_only=True)
class Ask:
    """One request on its way; `number` is its place among those of its client."""

    request: Request
    heard: Callable[[Answer], None]
    lost: Callable[[], None]
    positions: Mapping[Partition, int] = field(default_factory=dict)
    fate: Fate = Fate.FINE
    number: int = 0
    has_arrived: bool = False


class Connection:
    """One connection of a client, from its opening to its break."""

    def __init__(self, network: "Network", owner: "Line") -> None:
        self.is_broken = False
        self._network = network
        self._owner = owner
        self._outstanding: dict[Ask, None] = {}
        self._inbox: deque[Ask] = deque()
        self._is_busy = False
        self._last_arrival_ms = self._last_answer_ms = 0

    def send(self, ask: Ask) -> None:
        """A request leaves."""
        network, world = self._network, self._network.world
        ask.fate = network.fate(ask.request)
        self._outstanding[ask] = None
        match ask.fate:
            case Fate.LOST:
                self.break_up()
            case Fate.LATE:
                self.break_up()
                world.counts["late requests"] += 1
                world.after(world.between(1, LATE_MS_MAX), self._arrive_late, ask)
                hopefully_overtaken_ms = LATE_MS_MAX // 8
                world.after(hopefully_overtaken_ms, network.late.append, (self._arrive_late, ask))
            case Fate.FINE | Fate.ANSWER_LOST | Fate.SLOW | Fate.ERROR_INSTEAD:
                delay_ms = world.between(1, DELAY_MS_MAX)
                arrival_ms = max(self._last_arrival_ms, world.now_ms + delay_ms)
                self._last_arrival_ms = arrival_ms
                world.after(arrival_ms - world.now_ms, self._arrive, ask)

    def break_up(self) -> None:
        """It is gone; the client notices soon, for all that it still waits for."""
        if self.is_broken:
            return
        self.is_broken = True
        world = self._network.world
        notice_ms = world.between(0, NOTICE_MS_MAX)
        for ask in self._outstanding:
            world.after(notice_ms, ask.lost)
            if ask.request.token in self._network.commits_sent:
                # The connection to the cluster goes with it, and the answer gets lost.
                self._network.end_commit(ask.request.token, answer_lost=True)
        self._outstanding.clear()

    def drop_inbox(self) -> None:
        """The gateway's process is gone."""
        self._inbox.clear()
        self._is_busy = False

    def _arrive_late(self, ask: Ask) -> None:
        if not ask.has_arrived and not self._network.is_calm:
            self._arrive(ask)

    def _arrive(self, ask: Ask) -> None:
        ask.has_arrived = True
        if not self._network.driver.is_up:
            self.break_up()
        elif not self.is_broken or ask.fate is Fate.LATE or ask.fate is Fate.ANSWER_LOST:
            self._inbox.append(ask)
            self._serve_next()

    def _serve_next(self) -> None:
        if self._is_busy or not self._inbox:
            return
        self._is_busy = True
        ask = self._inbox.popleft()
        self._owner.arrived(ask)
        if isinstance(ask.request, OffsetCommitReceived):
            self._network.committers[ask.request.token] = self._owner.name
        self._network.driver.ask(ask.request, lambda answer: self._decided(ask, answer))

    def _decided(self, ask: Ask, answer: Answer) -> None:
        """The gateway decided; offset requests go on to the cluster, as vetted. What gives
        partitions is withheld if the anchor is unconfirmed by now: the step was applied."""
        if _gives(answer.reply) and self._network.withholds():
            answer = replace(answer, reply=ask.request.refused(UNCONFIRMED))
        if answer.reply.error == ErrorCode.NONE:
            match ask.request:
                case OffsetCommitReceived() as commit:
                    self._forward_commit(ask, commit, answer)
                    return
                case OffsetFetchReceived(partitions=partitions):
                    offsets = self._network.cluster.offsets
                    wanted = partitions or frozenset(offsets)
                    found = {p: offsets[p] for p in wanted if p in offsets}
                    answer = replace(answer, offsets=found)
                case _:
                    pass
        self._answer(ask, answer)

    def _forward_commit(self, ask: Ask, commit: OffsetCommitReceived, answer: Answer) -> None:
        network, token = self._network, commit.token
        if self.is_broken:
            # Nobody is left to send it.
            network.world.after(0, network.driver.end_commit, OffsetCommitEnded(commit=token))
            return

        def ended(answer_lost: bool) -> None:
            if answer_lost:
                self.break_up()
            network.end_commit(token, answer_lost=answer_lost)
            self._answer(ask, answer)

        sent = network.cluster.commit(self._owner.name, ask.positions, ended)
        network.commits_sent[token] = commit, sent

    def _answer(self, ask: Ask, answer: Answer) -> None:
        world = self._network.world
        self._is_busy = False
        if ask.fate is Fate.ERROR_INSTEAD:
            why = GroupError(world.dice.choice(ERRORS_INSTEAD), "its step was applied")
            answer = replace(answer, reply=ask.request.refused(why))
            world.counts["errors instead of answers"] += 1
        if ask.fate is Fate.ANSWER_LOST:
            self.break_up()
        if not self.is_broken:
            is_slow = ask.fate is Fate.SLOW
            delay_ms = world.between(1, SLOW_MS_MAX if is_slow else DELAY_MS_MAX)
            arrival_ms = max(self._last_answer_ms, world.now_ms + delay_ms)
            self._last_answer_ms = arrival_ms
            world.after(arrival_ms - world.now_ms, self._hear, ask, answer)
        world.after(0, self._serve_next)

    def _hear(self, ask: Ask, answer: Answer) -> None:
        if ask in self._outstanding:
            del self._outstanding[ask]
            ask.heard(answer)


class Line:
    """A client's way to the gateway: a new connection whenever the last one broke."""

    def __init__(self, network: "Network", name: str) -> None:
        self.name = name
        self._network = network
        self._connection = network.connect(self)
        self._sent = itertools.count(1)
        self._newest_arrived = 0

    def send(self, ask: Ask) -> None:
        """Send a request."""
        if self._connection.is_broken:
            self._connection = self._network.connect(self)
        ask.number = next(self._sent)
        self._connection.send(ask)

    def cut(self) -> None:
        """The connection breaks now."""
        self._connection.break_up()

    def arrived(self, ask: Ask) -> None:
        """The gateway is about to look at this request."""
        if ask.number < self._newest_arrived:
            self._network.overtaken(self.name, ask.request)
        self._newest_arrived = max(self._newest_arrived, ask.number)


class Network:
    """All connections, and how bad it is.

    `overtaken` hears of each request that arrives after a later one of the same client, whose name
    it gets. `commits_sent` are on their way to the cluster, `committers` those who ask for one.
    """

    def __init__(
        self,
        world: World,
        driver: Driver,
        cluster: Cluster,
        *,
        overtaken: Callable[[str, Request], None],
    ) -> None:
        self.world, self.driver, self.cluster = world, driver, cluster
        self.overtaken = overtaken
        self.loss_rate = 0.0
        self.late_rate = 0.0
        self.is_calm = False
        """From now on nothing arrives late any more."""
        self.slow_rate = 0.0
        self.withheld_rate = 0.0
        self.error_rate = 0.0
        self.commits_sent: dict[int, tuple[OffsetCommitReceived, Commit]] = {}
        self.committers: dict[int, str] = {}
        self.late: list[tuple[Callable[[Ask], None], Ask]] = []
        self._tokens = itertools.count(1)
        self._connections: list[Connection] = []
        driver.crashed, driver.target_moved = self._gateway_crashed, self._target_moved

    def next_token(self) -> int:
        """Names a request."""
        return next(self._tokens)

    def connect(self, line: Line) -> Connection:
        """A new connection."""
        connection = Connection(self, line)
        self._connections.append(connection)
        return connection

    def fate(self, request: Request) -> Fate:
        """What becomes of a request."""
        if self.world.chance(self.late_rate * _late_weight(request)):
            return Fate.LATE
        dice = self.world.dice.random()
        if dice < self.loss_rate:
            return Fate.ANSWER_LOST if dice < self.loss_rate * 2 / 3 else Fate.LOST
        if dice < self.loss_rate + self.error_rate:
            return Fate.ERROR_INSTEAD
        return Fate.SLOW if dice > 1 - self.slow_rate else Fate.FINE

    def withholds(self) -> bool:
        """Whether the anchor is unconfirmed just now."""
        return bool(self.withheld_rate) and self.world.chance(self.withheld_rate)

    def end_commit(self, token: int, *, answer_lost: bool) -> None:
        """The engine hears how a commit ended, once; but if time does not tell when the cluster can
        no longer store it, the gateway sees to that and says so."""
        if token not in self.commits_sent:
            return
        _commit, sent = self.commits_sent.pop(token)
        if answer_lost:
            hold_ms = self.driver.config.lost_commit_hold_ms
            if hold_ms is None:
                self.world.counts["renewals"] += 1
                hold_ms = self.world.between(1, RENEWAL_MS_MAX)
                renewed = OffsetCommitEnded(commit=token)
                self.world.after(hold_ms, self.driver.end_commit, renewed)
            self.cluster.lose(sent, hold_ms)
        ended = OffsetCommitEnded(commit=token, answer_lost=answer_lost)
        self.world.after(0, self.driver.end_commit, ended)

    def _target_moved(self) -> None:
        """The group wants to move partitions: now a request that is late does most harm."""
        late, self.late = self.late, []
        for arrive, ask in late:
            self.world.after(self.world.between(1, LATE_TO_HARM_MS_MAX), arrive, ask)

    def _gateway_crashed(self) -> None:
        self.commits_sent.clear()
        for connection in self._connections:
            connection.drop_inbox()
            connection.break_up()
        self._connections.clear()


def _gives(reply: Reply) -> bool:
    """Whether its receiver may begin to consume partitions, or give them to others."""
    match reply:
        case JoinGroupReply() | SyncGroupReply():
            return reply.error is ErrorCode.NONE
        case ConsumerHeartbeatReply(assignment=assignment):
            return assignment is not None
        case _:
            return False


def _late_weight(request: Request) -> int:
    """Those that say what their client owns are late most often. A commit never is: nothing in
    Kafka's protocol could tell it from a new one."""
    match request:
        case OffsetCommitReceived():
            return 0
        case JoinGroupReceived():
            return 8
        case ConsumerHeartbeatReceived(member_epoch=epoch):
            return 8 if epoch == JOIN_EPOCH else 2
        case _:
            return 1
