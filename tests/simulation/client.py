"""The base of all clients: the process, its claims to partitions, and its offsets.

A client owns a partition from its assign callback until its revoke callback returns or its process
dies. It consumes from the committed offset on, and commits its position.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitReceived,
    OffsetFetchReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import ClientAssignor
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition, Topics
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.cluster import CONSUMED_MAX
from tests.simulation.connection import Ask
from tests.simulation.direct_network import DirectLine
from tests.simulation.driver import Answer
from tests.simulation.network import Line, Network
from tests.simulation.world import World

COMMIT_INTERVAL_MS = 2_000
RETRY_MS = 150
COMMIT_TRIES_MAX = 3

OF_MEMBERS = (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    SyncGroupReceived,
)
RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The configuration of a client. Times are milliseconds.

    `topic_regex` applies only to native clients, in addition to `topics`. `callback_ms` is the
    longest duration of a revoke callback. `version` is that of ConsumerGroupHeartbeat,
    `join_version` that of JoinGroup, `embedded_version` that of its subscription.
    """

    topics: tuple[str, ...]
    topic_regex: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = 6_000
    callback_ms: int = 300
    version: int = 1
    assignor: str | None = None
    client_assignors: tuple[ClientAssignor, ...] = ()
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 1_500
    protocols: tuple[str, ...] = ("range",)
    is_cooperative: bool = False
    join_version: int = 9
    embedded_version: int = 2


@dataclass(eq=False, slots=True)
class Claim:
    """A client's belief that it owns a partition.

    The group granted the partition to `member_id` at `granted_ms`. `position` is None until the
    client has fetched the committed offset. `is_lie`: a leader that breaks the protocol granted it.
    """

    member_id: str
    granted_ms: int
    is_lie: bool
    position: int | None = None


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The surroundings of a client. The client calls `claims_moved` when it begins or ends to own
    partitions."""

    world: World
    network: Network
    claims_moved: Callable[[], None]
    known_ids: Callable[[], list[str]]
    """The member ids of all clients. A misbehaving client uses those of others."""
    lies: set[bytes]
    """The assignments of leaders that break the protocol."""

    @property
    def topics(self) -> Topics:
        """The cluster's topics, as a client's metadata shows them."""
        return self.network.cluster.topics


class Client(ABC):
    """One process. An honest client follows the protocol, and no other client may own its
    partitions."""

    kind = "client"
    is_honest = True

    def __init__(self, context: ClientContext, name: str, spec: Spec) -> None:
        self.context, self.world = context, context.world
        self.name, self.spec = name, spec
        self.client_id = name
        """Its predecessor's, if it replaces another process."""
        self.topics = spec.topics
        self.member_id = ""
        self.claims: dict[Partition, Claim] = {}
        self.is_dead = self.is_frozen = self.is_closing = False
        self._line = Line(context.network, name)
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._callback = 0
        self.is_in_callback = False
        self.confirmed_ms = 0
        """When the client sent the newest request whose answer has confirmed its membership."""
        self.is_told_gone = False
        """Whether the latest answer about its membership said that it is no member."""

    # -- for each kind of client -----------------------------------------------------------------

    @abstractmethod
    def start(self) -> None:
        """Start the process."""

    def bypass_gateway(self) -> None:
        """Connect to the cluster itself."""
        self._line.cut()
        self._line = DirectLine(self.context.network, self.name)

    @abstractmethod
    def close(self) -> None:
        """Shut down cleanly."""

    @abstractmethod
    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Change the subscription."""

    @abstractmethod
    def stall(self, length_ms: int) -> None:
        """Leave because the application has polled too late (max.poll.interval.ms), keep the
        connection, and rejoin once it polls again. It gives up its partitions first; a real
        application may only then see that it has lost them, which no coordinator can prevent."""

    def wants(self, name: str) -> bool:
        """Whether the client subscribes to a topic."""
        return name in self.topics

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The generation or member epoch that the client knows."""

    def stated_epoch(self) -> int:
        """The epoch in the client's requests."""
        return self.epoch

    @property
    def told_rack(self) -> str | None:
        """The rack in the client's joins, or None."""
        return self.spec.rack_id

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether the last heartbeat succeeded and no work is left."""

    # -- start and end -----------------------------------------------------------------------------

    @property
    def member_ids(self) -> Sequence[str]:
        """The member ids that the client uses."""
        return (self.member_id,)

    def die(self, reason: str) -> None:
        """End the process immediately."""
        self.world.trace(self.name, f"dies: {reason}")
        self.is_dead = True
        self.claims.clear()
        self.context.claims_moved()
        self._backlog.clear()
        self._line.cut(by_client=True)

    def freeze(self) -> None:
        """Pause the process; answers and timers wait."""
        self.world.trace(self.name, "freezes")
        self.is_frozen = True

    def thaw(self) -> None:
        """Resume the process with the state that it had."""
        self.is_frozen = False
        if not self.is_dead:
            self.world.trace(self.name, "continues")
        backlog, self._backlog = self._backlog, []
        for do, args in backlog:
            self._when_awake(do, *args)

    def lose_connection(self) -> None:
        """Break the connection."""
        self.world.trace(self.name, "loses its connection")
        self._line.cut()

    def later(self, delay_ms: int, do: Callable[..., None], *args: Any) -> None:
        """Schedule a call. A dead process skips it; a frozen one makes it after the thaw."""
        self.world.after(delay_ms, self._when_awake, do, *args)

    def _when_awake(self, do: Callable[..., None], *args: Any) -> None:
        if self.is_dead:
            return
        if self.is_frozen:
            self._backlog.append((do, args))
        else:
            do(*args)

    # -- requests --------------------------------------------------------------------------------

    def token(self) -> int:
        return self.context.network.next_token()

    def fresh_id(self) -> UUID:
        return UUID(int=self.world.dice.getrandbits(128), version=4)

    def ask(
        self,
        request: Request,
        heard: Callable[[Answer], None],
        lost: Callable[[], None],
        positions: dict[Partition, int] | None = None,
    ) -> None:
        """Send a request. Either `heard` is called with its answer, or `lost`."""
        self.world.trace(self.name, request)
        sent_ms = self.world.now_ms

        def hear(answer: Answer) -> None:
            self.world.trace(f"{self.name} hears", answer.reply)
            self._record_membership(request, answer.reply, sent_ms)
            heard(answer)

        self._line.send(
            Ask(
                request=request,
                heard=lambda answer: self._when_awake(hear, answer),
                lost=lambda: self._when_awake(lost),
                positions=positions if positions and self.is_honest else {},
            )
        )

    def _record_membership(self, request: Request, reply: Reply, sent_ms: int) -> None:
        """What the answer says of the client's membership, if it is about that."""
        if not isinstance(request, OF_MEMBERS) or reply.error in RETRIABLE:
            return
        if reply.error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.is_told_gone = True
            return
        self.is_told_gone = False
        self.confirmed_ms = max(self.confirmed_ms, sent_ms)

    # -- ownership -------------------------------------------------------------------------------

    def assign(
        self,
        partitions: Iterable[Partition],
        *,
        granted_ms: int,
        is_lie: bool = False,
    ) -> None:
        """Run the assign callback, which takes no time."""
        added = [partition for partition in sorted(partitions) if partition not in self.claims]
        for partition in added:
            self.claims[partition] = Claim(self.member_id, granted_ms, is_lie)
        if added:
            self.world.trace(self.name, ("owns", *self.claims))
            self.context.claims_moved()
            self._fetch({partition: self.claims[partition] for partition in added})

    def revoke(self, partitions: Iterable[Partition], done: Callable[[], None]) -> None:
        """Commit, then run the revoke callback. The client owns the partitions until it returns."""
        going = sorted(self.claims.keys() & set(partitions))
        self._callback += 1
        if not going:
            self.is_in_callback = False
            done()
            return
        self.is_in_callback = True
        self.world.trace(self.name, ("revokes", *going))
        self.commit(going, self._in_this_callback(self._run_callback), going, done)

    def lose(self, done: Callable[[], None]) -> None:
        """Run the callback for lost partitions, without a commit. A closing client ends
        immediately, because it has no membership left to give up."""
        if self.is_closing:
            self.die("closed")
            return
        self._callback += 1
        if not self.claims:
            self.is_in_callback = False
            done()
            return
        self.is_in_callback = True
        self.world.trace(self.name, ("loses", *self.claims))
        self._run_callback(sorted(self.claims), done)

    def _run_callback(self, going: list[Partition], done: Callable[[], None]) -> None:
        def on_return() -> None:
            self.is_in_callback = False
            for partition in going:
                self.claims.pop(partition, None)
            self.world.trace(self.name, ("keeps", *self.claims))
            self.context.claims_moved()
            done()

        length_ms = self.world.between(0, self.spec.callback_ms)
        self.later(length_ms, self._in_this_callback(on_return))

    def _in_this_callback(self, do: Callable[..., None]) -> Callable[..., None]:
        """`do`, skipped if another callback has begun and so replaced this one."""
        callback = self._callback

        def run_if_current(*args: Any) -> None:
            if callback == self._callback:
                do(*args)

        return run_if_current

    # -- offsets ---------------------------------------------------------------------------------

    def start_committing(self) -> None:
        """Commit all positions periodically."""
        self.later(self.world.between(COMMIT_INTERVAL_MS // 2, COMMIT_INTERVAL_MS), self._tick)

    def _tick(self) -> None:
        if self.may_commit and not self.is_closing:
            self.commit(sorted(self.claims), lambda: None)
        self.start_committing()

    @property
    def may_commit(self) -> bool:
        """Whether periodic commits are possible now."""
        return True

    def commit(
        self, partitions: list[Partition], done: Callable[..., None], *args: Any, tries: int = 0
    ) -> None:
        """Consume a few records and commit the new positions. Calls `done` in any case."""
        positions = {}
        for partition in partitions:
            claim = self.claims.get(partition)
            if claim is not None and claim.position is not None:
                claim.position += self.world.between(1, CONSUMED_MAX)
                positions[partition] = claim.position
        if not positions or self.epoch <= 0 or tries == COMMIT_TRIES_MAX:
            done(*args)
            return

        def again() -> None:
            self.commit(partitions, done, *args, tries=tries + 1)

        request = OffsetCommitReceived(
            token=self.token(),
            version=9,
            member_id=self.member_id,
            instance_id=self.spec.instance_id,
            epoch=self.stated_epoch(),
            partitions=frozenset(positions),
        )
        self.send_commit(request, positions, again, lambda: done(*args))

    def send_commit(
        self,
        request: OffsetCommitReceived,
        positions: dict[Partition, int],
        again: Callable[[], None],
        done: Callable[[], None],
    ) -> None:
        """Send a commit. `again` is called if it may be worth another try, otherwise `done`."""

        def on_answer(answer: Answer) -> None:
            if answer.reply.error in RETRIABLE:
                self.later(RETRY_MS, again)
            else:
                # Heartbeats tell the client the consequences of a refusal.
                done()

        self.ask(request, on_answer, again, positions)

    def _fetch(self, claims: dict[Partition, Claim]) -> None:
        """Fetch the committed offsets of the partitions that the client still owns."""
        wanted = {p: claim for p, claim in claims.items() if self.claims.get(p) is claim}
        if not wanted:
            return

        def again() -> None:
            self.later(RETRY_MS, self._fetch, wanted)

        def on_answer(answer: Answer) -> None:
            if answer.reply.error:
                again()
                return
            for partition, claim in wanted.items():
                claim.position = answer.offsets.get(partition, 0)

        member_id, epoch = self.fetch_as
        self.ask(
            OffsetFetchReceived(
                token=self.token(),
                member_id=member_id,
                epoch=epoch,
                partitions=frozenset(wanted),
            ),
            on_answer,
            again,
        )

    @property
    def fetch_as(self) -> tuple[str | None, int]:
        """The member id and the epoch of an OffsetFetch."""
        return None, -1
