"""Watches the clients: who believes to own what, and what becomes of their commits.

Ownership is computed twice: what the engine granted, and what honest clients believe. A client that
was removed and has not heard of it may still believe; then its commits must be refused, and that
time is counted apart.
"""

from collections.abc import Callable, Sequence

from coordinator.config import INT32_MAX
from coordinator.consumer.group import ConsumerGroup
from coordinator.engine import GroupEngine, Step
from coordinator.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitReceived,
    Request,
)
from coordinator.generic.group import GenericGroup
from coordinator.simulation.client import Client
from coordinator.simulation.cluster import Cluster
from coordinator.simulation.invariants import BrokenInvariantError, Invariant, require
from coordinator.simulation.watch_members import removed_members
from coordinator.simulation.world import World
from coordinator.topics import Partition
from coordinator.volatile import GenericCoreMoved, GenericPhase, JoinReleased
from kafka_codecs.consumer_protocol import NO_GENERATION, decode_subscription

# An embedded subscription states its generation from version 2 on.
FIRST_VERSION_WITH_GENERATION = 2


class OwnerWatch:
    """`clients` are all processes that live."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        clients: Sequence[Client],
        engine: Callable[[], GroupEngine],
    ) -> None:
        self._world, self._cluster = world, cluster
        self._clients = clients
        self._engine = engine
        self._excused: set[Partition] = set()
        """Two owners of these would be, or have been, no fault of the engine."""
        self._shared = 0
        self._looked_at_ms = world.now_ms

    # -- the engine moved ------------------------------------------------------------------------

    def after_step(self, step: Step) -> None:
        """Members that are gone have yet to hear of it."""
        removed = removed_members(step).keys() | self._left_behind(step)
        for client in self._clients:
            if client.member_id in removed:
                client.removed_ms = self._world.now_ms
                self._world.counts["removed owners"] += bool(client.claims)
        self.check()

    def _left_behind(self, step: Step) -> set[str]:
        """Static members that a new generation of a generic group did not wait for any longer."""
        starts = any(
            isinstance(record, GenericCoreMoved)
            and record.core.phase is GenericPhase.COMPLETING_REBALANCE
            for record in step.records
        )
        group = self._engine().state.group
        if not starts or not isinstance(group, GenericGroup):
            return set()
        joined = {each.member_id for each in step.records if isinstance(each, JoinReleased)}
        return group.members.keys() - joined

    def after_load(self) -> None:
        """A restart may have forgotten members, or brought some back."""
        for client in self._clients:
            if not self._is_backed(client):
                client.removed_ms = self._world.now_ms
            elif client.removed_ms:
                client.removed_ms = 0
        self.check()

    def _is_backed(self, client: Client) -> bool:
        """Whether the group, as it was loaded, knows the client and grants it what it has."""
        group = self._engine().state.group
        if group is None or client.member_id not in group.members:
            return False
        if client.removed_ms and isinstance(group, ConsumerGroup):
            return client.claims.keys() <= group.assignments[client.member_id].held.keys()
        return True

    # -- what clients believe --------------------------------------------------------------------

    def check(self) -> None:
        """No two owners; and what a member believes to own, the group holds for it."""
        group = self._engine().state.group
        members = set(group.members) if group is not None else set()
        owners: dict[Partition, Client] = {}
        stale: list[Partition] = []
        for client in self._clients:
            if not client.claims or not client.is_honest:
                continue
            mine = {p: claim for p, claim in client.claims.items() if not client.is_stale(claim)}
            stale += client.claims.keys() - mine.keys()
            if not mine:
                continue
            require(
                client.member_id in members,
                Invariant.GRANTED,
                f"{client.name} owns something as {client.member_id!r}, which is no member",
            )
            held = (
                group.assignments[client.member_id].held
                if isinstance(group, ConsumerGroup)
                else None
            )
            for partition, claim in mine.items():
                if claim.is_void:
                    self._excused.add(partition)
                    continue
                if partition in owners:
                    raise BrokenInvariantError(
                        Invariant.SINGLE_OWNER,
                        f"{partition}: {owners[partition].name} and {client.name}",
                    )
                owners[partition] = client
                require(
                    held is None or partition in held or self._is_gone(partition),
                    Invariant.GRANTED,
                    f"{client.name} owns {partition}, the group holds {held} for it",
                )
        self._count_stale(sum(partition in owners for partition in stale))

    def _is_gone(self, partition: Partition) -> bool:
        """Its topic was deleted; classic clients know names only, and cannot say that they still
        read the one that is gone."""
        return partition.topic_id not in self._cluster.topics.by_id

    def _count_stale(self, shared: int) -> None:
        now_ms = self._world.now_ms
        self._world.counts["stale ms"] += self._shared * (now_ms - self._looked_at_ms)
        self._shared, self._looked_at_ms = shared, now_ms

    def overtaken(self, name: str, request: Request) -> None:
        """A request that arrives after newer ones of its client tells of the past.

        Of what its epoch knows already, nothing could show that: for these partitions its client
        may now be wrong, and no rule of the protocol could prevent it.
        """
        client = self._named(name)
        if client is None:
            return
        known_epoch = _epoch_that_proves(request)
        group = self._engine().state.group
        if known_epoch is None or getattr(request, "member_id", "") != client.member_id:
            return
        held = (
            group.assignments[client.member_id].held
            if isinstance(group, ConsumerGroup) and client.member_id in group.assignments
            else {}
        )
        if not isinstance(group, ConsumerGroup):
            doubtful = set(client.claims)
            client.doubts_all_until_ms = self._world.now_ms
        else:
            doubtful = {p for p, epoch in held.items() if epoch <= known_epoch}
        for partition in doubtful:
            client.doubts[partition] = self._world.now_ms
            if partition in client.claims:
                client.claims[partition].is_void = True
        self._excused |= doubtful
        if doubtful:
            self._world.tell("watch", ("cannot hold against the engine", name, *sorted(doubtful)))

    # -- commits ---------------------------------------------------------------------------------

    def vetted(self, name: str, commit: OffsetCommitReceived) -> None:
        """The engine let a commit through: nobody else may hold what it commits."""
        client = self._named(name)
        if client is None or not client.is_honest:
            return
        self._world.counts["commits"] += 1
        for other in self._clients:
            both = commit.partitions & other.claims.keys() - self._excused
            owned = [p for p in both if not other.is_stale(other.claims[p])]
            require(
                other is client or not other.is_honest or not owned,
                Invariant.STALE_COMMIT,
                f"{name} commits {owned}, which {other.name} owns",
            )
        group = self._engine().state.group
        require(
            group is None or commit.member_id in group.members,
            Invariant.STALE_COMMIT,
            f"{name} commits as {commit.member_id!r}, which is no member",
        )
        if not isinstance(group, ConsumerGroup):
            return
        for partition in commit.partitions - self._excused:
            require(
                group.holders.get(partition, commit.member_id) == commit.member_id,
                Invariant.STALE_COMMIT,
                f"{name} commits {partition}, which {group.holders.get(partition)} holds",
            )

    def stored(self, name: str, partition: Partition, before: int, now: int) -> None:
        """Invariant 10: an offset never goes back, and no owner has begun before it."""
        if partition in self._excused:
            return
        require(
            now >= before,
            Invariant.OFFSETS,
            f"{name} took {partition} from {before} back to {now}",
        )
        for client in self._clients:
            claim = client.claims.get(partition)
            if claim is None or client.name == name or not client.is_honest:
                continue
            if client.is_stale(claim):
                continue
            require(
                claim.position is None or claim.position >= now,
                Invariant.OFFSETS,
                f"{client.name} began {partition} before {name} committed {now}",
            )

    def _named(self, name: str) -> Client | None:
        return next((client for client in self._clients if client.name == name), None)


def _epoch_that_proves(request: Request) -> int | None:
    """Up to which epoch of a partition's assignment the request's list of owned partitions speaks
    with knowledge; None if it has no list."""
    match request:
        case ConsumerHeartbeatReceived(owned=owned, member_epoch=epoch) if owned is not None:
            return epoch
        case JoinGroupReceived(protocols=protocols):
            version, subscription = decode_subscription(protocols[0][1])
            generation = subscription.generation_id
            is_stated = version >= FIRST_VERSION_WITH_GENERATION and generation > NO_GENERATION
            return generation if is_stated else INT32_MAX
        case _:
            return None
