"""Connections between clients and the gateway, and their faults.

A connection handles its requests in order, one at a time. When it breaks, the request or its answer
may be lost, or the request arrives late, after others that the client has sent on its next
connection. An error may replace the answer of an applied step. The gateway forwards commits and
fetches to the cluster.
"""

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetFetchReceived,
    Request,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition
from gateway.simulation.cluster import Cluster, Commit
from gateway.simulation.driver import Answer, Driver
from gateway.simulation.world import World
from kafka_codecs.error_codes import ErrorCode

DELAY_MS_MAX = 40
LATE_MS_MAX = 8_000
"""The longest delay of a request on a connection that its client has abandoned."""
LATE_TO_HARM_MS_MAX = 600
ADMIN = "admin"
"""The name of the client that is not a consumer."""
SLOW_MS_MAX = 3_000
"""The longest delay of an answer on a busy machine. Later answers wait behind it."""
UNCONFIRMED = GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the anchor is unconfirmed")
NOTICE_MS_MAX = 500
"""The longest time until a client notices that its connection broke."""
RENEWAL_MS_MAX = 3_000
"""The longest time until the gateway makes the cluster refuse a commit whose answer was lost."""
ERRORS_INSTEAD = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""The gateway's answers when it lost the group or the cluster after its decision."""


class Fate(Enum):
    """The fate of one request."""

    FINE = auto()
    LOST = auto()
    LATE = auto()
    ANSWER_LOST = auto()
    SLOW = auto()
    """The answer takes longer than some clients wait."""
    ERROR_INSTEAD = auto()


@dataclass(eq=False, slots=True, kw_only=True)
class Ask:
    """A request on its way; `number` counts the requests of its client."""

    request: Request
    heard: Callable[[Answer], None]
    lost: Callable[[], None]
    positions: Mapping[Partition, int] = field(default_factory=dict)
    fate: Fate = Fate.FINE
    number: int = 0
    has_arrived: bool = False


class Connection:
    """One connection of a client."""

    def __init__(self, network: "Network", owner: "Line") -> None:
        self.is_broken = False
        self._network = network
        self._owner = owner
        self._outstanding: dict[Ask, None] = {}
        self._inbox: deque[Ask] = deque()
        self._is_busy = False
        self._last_arrival_ms = self._last_answer_ms = 0

    def send(self, ask: Ask) -> None:
        """Send a request, which meets its fate."""
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
                likely_overtaken_ms = LATE_MS_MAX // 8
                world.after(likely_overtaken_ms, network.late.append, (self._arrive_late, ask))
            case Fate.FINE | Fate.ANSWER_LOST | Fate.SLOW | Fate.ERROR_INSTEAD:
                delay_ms = world.between(1, DELAY_MS_MAX)
                arrival_ms = max(self._last_arrival_ms, world.now_ms + delay_ms)
                self._last_arrival_ms = arrival_ms
                world.after(arrival_ms - world.now_ms, self._arrive, ask)

    def break_up(self) -> None:
        """Break the connection. The client soon notices, and loses all unanswered requests."""
        if self.is_broken:
            return
        self.is_broken = True
        world = self._network.world
        notice_ms = world.between(0, NOTICE_MS_MAX)
        for ask in self._outstanding:
            world.after(notice_ms, ask.lost)
            if ask.request.token in self._network.commits_sent:
                # The connection to the cluster breaks as well, so the answer is lost.
                self._network.end_commit(ask.request.token, answer_lost=True)
        self._outstanding.clear()

    def drop_inbox(self) -> None:
        """Drop the requests that the gateway's process had not handled when it ended."""
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
        """Answer a decided request, or forward it to the cluster. An unconfirmed anchor withholds
        an answer that gives partitions, although its step was applied."""
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
            # The gateway does not forward the commit of a closed connection.
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
    """A client's link to the gateway. It reconnects after the connection broke."""

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
        """Break the connection."""
        self._connection.break_up()

    def arrived(self, ask: Ask) -> None:
        """Report a request that the gateway handles after a newer one of the same client."""
        if ask.number < self._newest_arrived:
            self._network.overtaken(self.name, ask.request)
        self._newest_arrived = max(self._newest_arrived, ask.number)


class Network:
    """All connections, and the rates of their faults.

    The network calls `overtaken` with the client's name for each request that arrives after a newer
    one of the same client. `commits_sent` has the commits on their way to the cluster, `committers`
    the client names by token.
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
        """True drops requests that would arrive late."""
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
        """A new token for a request."""
        return next(self._tokens)

    def connect(self, line: Line) -> Connection:
        """Open a connection."""
        connection = Connection(self, line)
        self._connections.append(connection)
        return connection

    def fate(self, request: Request) -> Fate:
        """Draw the fate of a request."""
        if self.world.chance(self.late_rate * _late_weight(request)):
            return Fate.LATE
        dice = self.world.dice.random()
        if dice < self.loss_rate:
            return Fate.ANSWER_LOST if dice < self.loss_rate * 2 / 3 else Fate.LOST
        if dice < self.loss_rate + self.error_rate:
            return Fate.ERROR_INSTEAD
        return Fate.SLOW if dice > 1 - self.slow_rate else Fate.FINE

    def withholds(self) -> bool:
        """Draw whether the anchor is unconfirmed."""
        return bool(self.withheld_rate) and self.world.chance(self.withheld_rate)

    def end_commit(self, token: int, *, answer_lost: bool) -> None:
        """Tell the engine how a commit ended. If a commit without an answer has no deadline, the
        gateway makes the cluster refuse it, and reports its end a second time."""
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
        """Deliver late requests soon, because they do most harm while partitions move."""
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
    """Whether the receiver may start to consume partitions, or assign them to others."""
    match reply:
        case JoinGroupReply() | SyncGroupReply():
            return reply.error is ErrorCode.NONE
        case ConsumerHeartbeatReply(assignment=assignment):
            return assignment is not None
        case _:
            return False


def _late_weight(request: Request) -> int:
    """Requests that state owned partitions are late most often. Commits never are, because Kafka's
    protocol cannot tell a late commit from a new one."""
    match request:
        case OffsetCommitReceived():
            return 0
        case JoinGroupReceived():
            return 8
        case ConsumerHeartbeatReceived(member_epoch=epoch):
            return 8 if epoch == JOIN_EPOCH else 2
        case _:
            return 1
