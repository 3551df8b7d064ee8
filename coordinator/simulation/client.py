"""A client process: what it believes to own, what it consumed, and how it lives and dies.

What all kinds of clients share. From its assign callback until its revoke callback has returned, or
its process is dead, a client owns a partition. It goes on from the committed offset, and commits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from coordinator.events import OffsetCommitReceived, OffsetFetchReceived, Request
from coordinator.simulation.cluster import CONSUMED_MAX
from coordinator.simulation.driver import Answer
from coordinator.simulation.network import Ask, Line, Network
from coordinator.simulation.world import World
from coordinator.topics import Partition, Topics
from kafka_codecs.error_codes import ErrorCode

COMMIT_INTERVAL_MS = 2_000
RETRY_MS = 150
COMMIT_TRIES_MAX = 3

RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """How an operator set the client up. Times are milliseconds.

    A native client subscribes by `topic_regex` as well, if there is one.

    `callback_ms`: what a revoke callback takes at the most. `version` is that of
    ConsumerGroupHeartbeat, `join_version` that of JoinGroup, `embedded_version` that of the
    subscription in it.
    """

    topics: tuple[str, ...]
    topic_regex: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = 6_000
    callback_ms: int = 300
    version: int = 1
    assignor: str | None = None
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 1_500
    protocols: tuple[str, ...] = ("range",)
    is_cooperative: bool = False
    join_version: int = 9
    embedded_version: int = 2


@dataclass(eq=False, slots=True)
class Claim:
    """One partition that a client believes to own.

    `member_id` is whom the group granted it, and `granted_ms` when; `position` is None until the
    committed offset was fetched. `is_lie`: it comes from a leader that breaks the protocol.
    """

    member_id: str
    granted_ms: int
    is_lie: bool
    position: int | None = None


@dataclass(frozen=True, slots=True)
class ClientContext:
    """Where a client lives. `owning` is called when it begins to own something."""

    world: World
    network: Network
    owning: Callable[[], None]
    known_ids: Callable[[], list[str]]
    """The member ids of all clients, for those who would like to be somebody else."""
    lies: set[bytes]
    """Assignments that leaders made who do not follow the protocol."""

    @property
    def topics(self) -> Topics:
        """The cluster's topics, as a client's metadata shows them."""
        return self.network.cluster.topics


class Client(ABC):
    """One process. `is_honest`: it follows the protocol, and nobody may take what it owns."""

    kind = "client"
    is_honest = True

    def __init__(self, context: ClientContext, name: str, spec: Spec) -> None:
        self.context, self.world = context, context.world
        self.name, self.spec = name, spec
        self.topics = spec.topics
        self.member_id = ""
        self.claims: dict[Partition, Claim] = {}
        self.is_dead = self.is_frozen = self.is_closing = False
        self._line = Line(context.network, name)
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._callback = 0
        self.is_in_callback = False

    # -- what a kind of client does --------------------------------------------------------------

    @abstractmethod
    def start(self) -> None:
        """The process starts."""

    @abstractmethod
    def close(self) -> None:
        """The application asks for a clean end."""

    @abstractmethod
    def subscribe(self, topics: tuple[str, ...]) -> None:
        """The application wants other topics."""

    def wants(self, name: str) -> bool:
        """Whether it subscribes to a topic."""
        return name in self.topics

    @property
    @abstractmethod
    def epoch(self) -> int:
        """Its generation or member epoch, as it knows it."""

    def stated_epoch(self) -> int:
        """What its requests say of that."""
        return self.epoch

    @property
    def told_rack(self) -> str | None:
        """The rack that each of its joins names, if any."""
        return self.spec.rack_id

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Its last heartbeat was fine and nothing is left to do."""

    # -- start and end -----------------------------------------------------------------------------

    @property
    def member_ids(self) -> Sequence[str]:
        """The member ids that it goes by."""
        return (self.member_id,)

    def die(self, why: str) -> None:
        """The process is gone, whatever it was doing."""
        self.world.tell(self.name, f"dies: {why}")
        self.is_dead = True
        self.claims.clear()
        self._backlog.clear()
        self._line.cut()

    def freeze(self) -> None:
        """The process stops; answers and timers wait for it."""
        self.world.tell(self.name, "freezes")
        self.is_frozen = True

    def thaw(self) -> None:
        """It goes on with what it believed when it stopped."""
        self.is_frozen = False
        if not self.is_dead:
            self.world.tell(self.name, "goes on")
        backlog, self._backlog = self._backlog, []
        for do, args in backlog:
            self._when_awake(do, *args)

    def lose_connection(self) -> None:
        """Its connection breaks."""
        self.world.tell(self.name, "loses its connection")
        self._line.cut()

    def later(self, delay_ms: int, do: Callable[..., None], *args: Any) -> None:
        """Do something unless dead by then; a frozen process does it when it goes on."""
        self.world.after(delay_ms, self._when_awake, do, *args)

    def _when_awake(self, do: Callable[..., None], *args: Any) -> None:
        if self.is_dead:
            return
        if self.is_frozen:
            self._backlog.append((do, args))
        else:
            do(*args)

    # -- talking ---------------------------------------------------------------------------------

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
        """Send a request: `heard` is called with its answer, or `lost`."""
        self.world.tell(self.name, request)

        def hear(answer: Answer) -> None:
            self.world.tell(f"{self.name} hears", answer.reply)
            heard(answer)

        self._line.send(
            Ask(
                request=request,
                heard=lambda answer: self._when_awake(hear, answer),
                lost=lambda: self._when_awake(lost),
                positions=positions if positions and self.is_honest else {},
            )
        )

    # -- owning ----------------------------------------------------------------------------------

    def assign(
        self, partitions: Iterable[Partition], *, granted_ms: int, is_lie: bool = False
    ) -> None:
        """The assign callback, which takes no time."""
        added = [partition for partition in sorted(partitions) if partition not in self.claims]
        for partition in added:
            self.claims[partition] = Claim(self.member_id, granted_ms, is_lie)
        if added:
            self.world.tell(self.name, ("owns", *self.claims))
            self.context.owning()
            self._fetch({partition: self.claims[partition] for partition in added})

    def revoke(self, partitions: Iterable[Partition], done: Callable[[], None]) -> None:
        """Commit, then the revoke callback; when it returns the partitions are given up."""
        going = sorted(self.claims.keys() & set(partitions))
        self._callback += 1
        if not going:
            self.is_in_callback = False
            done()
            return
        self.is_in_callback = True
        self.world.tell(self.name, ("revokes", *going))
        self.commit(going, self._in_this_callback(self._run_callback), going, done)

    def lose(self, done: Callable[[], None]) -> None:
        """The callback for partitions that are lost: nothing is committed. Whoever was closing
        has no place to leave any more."""
        if self.is_closing:
            self.die("closed")
            return
        self._callback += 1
        if not self.claims:
            self.is_in_callback = False
            done()
            return
        self.is_in_callback = True
        self.world.tell(self.name, ("loses", *self.claims))
        self._run_callback(sorted(self.claims), done)

    def _run_callback(self, going: list[Partition], done: Callable[[], None]) -> None:
        def returned() -> None:
            self.is_in_callback = False
            for partition in going:
                self.claims.pop(partition, None)
            self.world.tell(self.name, ("keeps", *self.claims))
            done()

        length_ms = self.world.between(0, self.spec.callback_ms)
        self.later(length_ms, self._in_this_callback(returned))

    def _in_this_callback(self, do: Callable[..., None]) -> Callable[..., None]:
        """`do`, unless another callback has begun by then: it takes over."""
        callback = self._callback

        def guarded(*args: Any) -> None:
            if callback == self._callback:
                do(*args)

        return guarded

    # -- offsets ---------------------------------------------------------------------------------

    def start_committing(self) -> None:
        """Commit all positions from time to time."""
        self.later(self.world.between(COMMIT_INTERVAL_MS // 2, COMMIT_INTERVAL_MS), self._tick)

    def _tick(self) -> None:
        if self.may_commit and not self.is_closing:
            self.commit(sorted(self.claims), lambda: None)
        self.start_committing()

    @property
    def may_commit(self) -> bool:
        """Whether it commits from time to time now."""
        return True

    def commit(
        self, partitions: list[Partition], done: Callable[..., None], *args: Any, tries: int = 0
    ) -> None:
        """Consume a little, and commit where that leads to. `done` is called in any case."""
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

        def heard(answer: Answer) -> None:
            if answer.reply.error in RETRIABLE:
                self.later(RETRY_MS, again)
            else:
                # What follows from a refusal is for the heartbeats to say.
                done(*args)

        self.ask(
            OffsetCommitReceived(
                token=self.token(),
                version=9,
                member_id=self.member_id,
                instance_id=self.spec.instance_id,
                epoch=self.stated_epoch(),
                partitions=frozenset(positions),
            ),
            heard,
            again,
            positions,
        )

    def _fetch(self, claims: dict[Partition, Claim]) -> None:
        """Ask for the committed offsets of what is still owned."""
        wanted = {p: claim for p, claim in claims.items() if self.claims.get(p) is claim}
        if not wanted:
            return

        def again() -> None:
            self.later(RETRY_MS, self._fetch, wanted)

        def heard(answer: Answer) -> None:
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
            heard,
            again,
        )

    @property
    def fetch_as(self) -> tuple[str | None, int]:
        """The member and the epoch that an OffsetFetch names."""
        return None, -1
