"""The links of all clients to the gateway, and the rates of their faults."""

import itertools
from collections.abc import Callable, Mapping

from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitReceived,
    OffsetFetchReceived,
    Request,
)
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import RefusalReason, code_for, needs_lease
from gateway.hosting.calls import (
    Abandoned,
    Call,
    Commits,
    Refused,
)
from gateway.hosting.identity import AnchorIds
from tests.simulation.cluster import Cluster
from tests.simulation.cluster import Commit as CommitOnTheWay
from tests.simulation.connection import Ask, Connection, Fate
from tests.simulation.driver import Driver
from tests.simulation.process import Applied, Process
from tests.simulation.world import World

LATE_TO_HARM_MS_MAX = 600
BROKERS = 3
HELD_UP_RATE = 0.5
"""How often a connection is held up from which its client turns away."""


class Line:
    """A client's link to the gateway, whose listeners stand for brokers: one connection to each at
    most. It reconnects after a connection broke."""

    def __init__(self, network: "Network", name: str) -> None:
        self.name = name
        self._network = network
        self._connection = network.connect(self)
        self._others: list[Connection | None] = [None] * (BROKERS - 1)
        """The connections to the other brokers, if there are any."""
        self._sent = itertools.count(1)
        self._newest = 0

    def send(self, ask: Ask) -> None:
        """Send a request."""
        if self._connection.is_broken:
            self._connection = self._network.connect(self)
        ask.number = next(self._sent)
        self._connection.send(ask)

    def cut(self, *, by_client: bool = False) -> None:
        """Break the connection, or close all as the client does when it ends."""
        self._connection.break_up(by_client=by_client)
        for connection in self._others if by_client else ():
            if connection is not None:
                connection.break_up(by_client=True)

    def turn(self) -> None:
        """Continue at another broker, as after the coordinator has moved. The connection there may
        be older."""
        world, before = self._network.world, self._connection
        if before.is_broken:
            return
        before.set_aside(is_held_up=world.chance(HELD_UP_RATE))
        broker = world.between(0, BROKERS - 2)
        other = self._others[broker]
        is_open = other is not None and not other.is_broken
        self._others[broker] = before
        self._connection = other if other is not None and is_open else self._network.connect(self)

    def on_arrival(self, ask: Ask) -> None:
        """Note a request that the gateway begins to handle."""
        self._network.lines[ask.request.token] = self, ask.number
        self.on_decision(ask.number, ask.request)

    def on_decision(self, number: int, request: Request) -> None:
        """Report a request that is handled or decided after a newer one of the same client."""
        if number < self._newest:
            self._network.overtaken(self.name, request)
        else:
            self._newest = number


class Network:
    """All connections, and the rates of their faults.

    The network calls `overtaken` with the client's name for each request that arrives, or is
    decided, after a newer one of the same client. `lines` has the line and the number of each
    request, by token.
    """

    def __init__(
        self,
        world: World,
        driver: Driver,
        cluster: Cluster,
        *,
        overtaken: Callable[[str, Request], None],
        leaves: Callable[[str, Request, Reply, Applied | None, Process], None],
        fetched: Callable[[str, OffsetFetchReceived], None],
    ) -> None:
        """`leaves` sees each answer that leaves the gateway, `fetched` each fetch of offsets."""
        self.world, self.driver, self.cluster = world, driver, cluster
        self.overtaken, self.leaves, self._fetched = overtaken, leaves, fetched
        self.loss_rate = 0.0
        self.late_rate = 0.0
        self.is_calm = False
        """True drops requests that would arrive late."""
        self.slow_rate = 0.0
        self.error_rate = 0.0
        self.lines: dict[Token, tuple[Line, int]] = {}
        self.late: list[Callable[[], None]] = []
        """What lets late requests arrive."""
        self.newest = 0
        """The number of the newest connection."""
        self._tokens = itertools.count(1)
        self._connections: list[Connection] = []
        driver.ended = self._process_ended

    @property
    def hold_ms(self) -> int:
        """How long the engine waits for a commit whose answer was lost."""
        return self.driver.config.lost_commit_hold_ms or 0

    def next_token(self) -> int:
        """A new token for a request."""
        return next(self._tokens)

    def connect(self, line: Line) -> Connection:
        """Open a connection."""
        connection = Connection(self, line, self.driver.process)
        self._connections.append(connection)
        return connection

    def name_of(self, token: Token) -> str:
        """The name of the client that sent a request."""
        return self.lines[token][0].name

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

    def commit_of(
        self,
        ask: Ask,
        ids: AnchorIds | None,
        who: str,
        sender: int,
        *,
        is_relayed: bool = False,
    ) -> CommitOnTheWay:
        """A commit for the cluster."""
        request = ask.request
        assert isinstance(request, OffsetCommitReceived)
        return CommitOnTheWay(
            who=who,
            request=request,
            positions=ask.positions,
            ids=ids,
            sender=sender,
            is_relayed=is_relayed,
        )

    def fetch(self, who: str, request: OffsetFetchReceived) -> Mapping[Partition, int]:
        """The stored offsets."""
        self._fetched(who, request)
        offsets = self.cluster.offsets
        wanted = request.partitions or frozenset(offsets)
        return {p: offsets[p] for p in wanted if p in offsets}

    def reply_to(self, request: Request, call: Call, process: Process) -> Reply | None:
        """What the client gets to hear, in the words of the engine; None if the connection is
        closed instead."""
        answer: object = call.answer
        if isinstance(call, Commits) and isinstance(answer, Mapping):
            outcome = answer[request.token]
            if outcome.is_away:
                answer = Refused(RefusalReason.BROKER_AWAY, "the broker is away")
            else:
                answer = outcome.refused or outcome.decision
        match answer:
            case Refused(cause, reason):
                reply: Reply = request.refuse(GroupError(code_for(cause, call.api), reason))
            case Abandoned():
                return None
            case _:
                assert isinstance(answer, Reply), answer
                reply = answer
        if process.may_answer:
            return reply
        if not needs_lease(call.api, reply.error):
            return reply
        code = code_for(RefusalReason.LOG_NOT_OURS, call.api)
        return request.refuse(GroupError(code, "another gateway may own the state log"))

    def target_moved(self) -> None:
        """Deliver late requests soon, because they do most harm while partitions move."""
        late, self.late = self.late, []
        for arrive in late:
            self.world.after(self.world.between(1, LATE_TO_HARM_MS_MAX), arrive)

    def _process_ended(self, process: Process) -> None:
        for connection in self._connections:
            if connection.process is process:
                connection.break_up()
        self._connections = [
            connection for connection in self._connections if connection.process is not process
        ]


def _late_weight(request: Request) -> int:
    """Requests that state owned partitions are late most often."""
    match request:
        case JoinGroupReceived():
            return 8
        case ConsumerHeartbeatReceived(member_epoch=epoch):
            return 8 if epoch == JOIN_EPOCH else 2
        case _:
            return 1
