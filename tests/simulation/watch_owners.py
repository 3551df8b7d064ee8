"""Checks the partitions that clients own, and their commits.

It compares the engine's grants with the claims of honest clients, except those that
`exempt_claims.py` exempts. It counts the time in which removed clients still claim partitions.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    OffsetCommitReceived,
    Request,
)
from coordinator.interface.records import DurableRecord, MemberMetadata, RemovalCause
from coordinator.interface.topics import Partition
from tests.simulation.careless import CarelessClassic
from tests.simulation.client import Client
from tests.simulation.cluster import Cluster, Commit
from tests.simulation.connection import ADMIN
from tests.simulation.exempt_claims import ExemptClaims
from tests.simulation.intruder import INTRUDER
from tests.simulation.invariants import BrokenInvariantError, Invariant, require
from tests.simulation.native_client import NativeClient
from tests.simulation.run_costs import RunCosts
from tests.simulation.watch_moves import MoveWatch
from tests.simulation.whereabouts import Whereabouts
from tests.simulation.world import World


class OwnerWatch:
    """The ownership checks. `clients` are all living processes."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        clients: Sequence[Client],
        state: Callable[[], GroupState],
        exempt_claims: ExemptClaims,
        whereabouts: Whereabouts,
    ) -> None:
        self._whereabouts = whereabouts
        self.moves = MoveWatch(world, clients, whereabouts)
        self._world, self._cluster = world, cluster
        self._clients, self._state = clients, state
        self._exempt_claims = exempt_claims
        self._costs = RunCosts(world)
        self._heirs: Mapping[Commit, Set[str]] = {}
        self._shared = 0
        self._looked_at_ms = world.now_ms

    def after_step(self, step: Step) -> None:
        """After a step that changed the group. Between such steps, clients call `check`."""
        self.moves.after_step(step)
        self._exempt_claims.after_step(step, self._whereabouts.here)
        self._costs.after_step(step)
        self._record_heirs(step)
        self.check()

    def after_step_of_cluster(self, step: Step) -> None:
        """After a step of the group in the cluster."""
        self.moves.after_step_of_cluster(step)
        self._exempt_claims.after_step(step, self._whereabouts.there)
        self.check()

    def after_load(self, unseen: Sequence[Sequence[DurableRecord]]) -> None:
        """After the group was read from its log. `unseen`: the batches of steps that had not taken
        effect."""
        self.moves.after_step()
        self._exempt_claims.after_load(unseen)
        self.check()

    def overtaken(self, name: str, request: Request) -> None:
        """A request arrived after a newer one of the same client."""
        client = self._honest(name)
        if client is not None:
            self._exempt_claims.overtaken(client, request)

    # -- claims ----------------------------------------------------------------------------------

    def check(self) -> None:
        """No two clients own a partition, and the group holds a client's partitions for it."""
        group = self._state().group
        owners: dict[Partition, Client] = {}
        stale: list[Partition] = []
        for client in self._clients:
            if not client.is_honest:
                continue
            _check_rack(client, group)
            if not client.claims:
                continue
            partitions = self._owned_by(client)
            stale += client.claims.keys() - partitions
            for partition in partitions:
                self._check_granted(client, partition, group)
            for partition in partitions:
                if partition in owners:
                    both = f"{partition}: {owners[partition].name} and {client.name}"
                    raise BrokenInvariantError(Invariant.SINGLE_OWNER, both)
                owners[partition] = client
        self._costs.count_owners(owners)
        self.pass_time()
        self._shared = sum(partition in owners for partition in stale)

    def _check_granted(
        self, client: Client, partition: Partition, group: ClassicGroup | ConsumerGroup | None
    ) -> None:
        member_id = client.claims[partition].member_id
        is_member = (group is not None and member_id in group.members) or (
            member_id in self._whereabouts.members
        )
        is_granted = is_member and (
            not isinstance(group, ConsumerGroup)
            or member_id not in group.members
            or group.holders.get(partition) == member_id
            or self._is_gone(partition)
        )
        require(
            is_granted,
            Invariant.GRANTED,
            client.name,
            "owns",
            partition,
            "as",
            member_id,
            "which is a member" if is_member else "which is not a member",
        )

    def _owned_by(self, client: Client) -> set[Partition]:
        """The partitions of the client's claims that are not exempt."""
        owned = set()
        for partition, claim in client.claims.items():
            if self._exempt_claims.is_void(client, partition, claim):
                self._exempt_claims.partitions.add(partition)
            elif not self._exempt_claims.is_stale(claim):
                owned.add(partition)
        return owned

    def _is_gone(self, partition: Partition) -> bool:
        """Whether the topic was deleted. Classic clients know only names, so they cannot state that
        they still read the deleted topic."""
        return partition.topic_id not in self._cluster.topics.by_id

    def pass_time(self) -> None:
        """Count the time in which removed clients claim what others own."""
        now_ms = self._world.now_ms
        self._world.counts["stale ms"] += self._shared * (now_ms - self._looked_at_ms)
        self._looked_at_ms = now_ms

    def told_nothing_new(
        self, heartbeat: ConsumerHeartbeatReceived, member_id: str, assigned: Set[Partition]
    ) -> None:
        """Check a heartbeat's answer that omits the assignment. The client may be dead, and another
        one have its member id. It may also have left since, and then ignores the answer."""
        for client in self._clients:
            is_asker = client.client_id == heartbeat.client_id and client.member_id == member_id
            if isinstance(client, NativeClient) and is_asker:
                is_excused = (
                    not client.is_honest or client.name in self._exempt_claims.overtaken_owners
                )
                has_left = client.is_leaving or client.epoch == JOIN_EPOCH < heartbeat.member_epoch
                require(
                    is_excused or has_left or client.last_assignment == assigned,
                    Invariant.HEARD,
                    client.name,
                    "knows",
                    client.last_assignment,
                    "not",
                    assigned,
                )

    def check_replaced(self, member_id: str) -> None:
        """Check that a native member's client has ended, as another one takes its instance id. A
        client that has just started again as that member has nothing to lose yet."""
        self._world.counts["instances taken over"] += 1
        alive = [
            client.name
            for client in self._clients
            if isinstance(client, NativeClient) and client.member_id == member_id
            if client.is_honest and not client.is_dead and client.epoch > 0
        ]
        require(not alive, Invariant.INSTANCES, *alive, "was replaced as", member_id)

    # -- commits ---------------------------------------------------------------------------------

    def heirs(self, commit: Commit) -> Set[str]:
        """The members that had their committer's place while the commit was on its way, itself
        included. They may have its partitions: their fetch waits for the commit."""
        return self._heirs.get(commit, {commit.request.member_id})

    def _record_heirs(self, step: Step) -> None:
        heir_of = {
            before.member_id: heir.member_id
            for before, heir in pairwise(step.records)
            if isinstance(before, MemberMetadata) and before.cause is RemovalCause.REPLACED
            if isinstance(heir, MemberMetadata) and heir.value is not None
        }
        if heir_of:
            self._heirs = {
                commit: heirs | {heir_of[heir] for heir in heirs & heir_of.keys()}
                for commit in self._cluster.may_store(bool)
                for heirs in [self.heirs(commit)]
            }

    def check_commit(self, name: str, commit: OffsetCommitReceived) -> None:
        """Check an accepted commit: no other client owns or holds its partitions."""
        client, group = self._honest(name), self._state().group
        if client is None and name != ADMIN:
            return
        self._world.counts["commits"] += 1
        if isinstance(client, CarelessClassic) and commit.token < client.first_token:
            # DEV D73: a commit of a classic member that has joined again counts, as in Kafka.
            self._exempt_claims.partitions.update(commit.partitions)
        if client is not None:
            # Nobody asks whose partitions they are that a client kept when it lost its member id.
            claims = (
                p for p, claim in client.claims.items() if claim.member_id != client.member_id
            )
            self._exempt_claims.partitions.update(claims)
        partitions = commit.partitions - self._exempt_claims.partitions
        for other in self._clients:
            if other.is_honest and other is not client:
                shared = partitions & self._owned_by(other)
                require(
                    not shared,
                    Invariant.STALE_COMMIT,
                    name,
                    "commits",
                    shared,
                    "of",
                    other.name,
                )
        if isinstance(group, ConsumerGroup):
            for partition in partitions:
                holder = group.holders.get(partition, commit.member_id)
                require(
                    holder == commit.member_id,
                    Invariant.STALE_COMMIT,
                    name,
                    "commits",
                    partition,
                    "held by",
                    holder,
                )

    def check_stored(self, name: str, partition: Partition, before: int, now: int) -> None:
        """Invariant 10: an offset never goes back, and no owner has begun before it. An admin may
        set an offset in either direction until an owner begins."""
        is_kafkas = isinstance(self._whereabouts.there, ConsumerGroup)
        if partition in self._exempt_claims.partitions or is_kafkas:
            return  # what native members get of the cluster is not the gateway's to prove
        require(
            now >= before or name == ADMIN,
            Invariant.OFFSETS,
            name,
            "took",
            partition,
            "from",
            before,
            "back to",
            now,
        )
        if name == INTRUDER:
            return  # our members lose their partitions later (DEV D36)
        for client in self._clients:
            if client.name == name or not client.is_honest:
                continue
            if partition not in client.claims or partition not in self._owned_by(client):
                continue
            position = client.claims[partition].position
            require(
                position is None or (position >= now and name != ADMIN),
                Invariant.OFFSETS,
                client.name,
                "began to read",
                partition,
                "before",
                name,
                "committed",
                now,
            )

    def _honest(self, name: str) -> Client | None:
        clients = (client for client in self._clients if client.name == name and client.is_honest)
        return next(clients, None)


def _check_rack(client: Client, group: ClassicGroup | ConsumerGroup | None) -> None:
    """The group has the client's rack, which assignors may use (KIP-881)."""
    if not isinstance(group, ConsumerGroup) or client.told_rack is None:
        return
    member = group.members.get(client.member_id)
    if member is not None:
        require(
            member.rack_id == client.told_rack,
            Invariant.RACKS,
            client.name,
            "is in",
            client.told_rack,
            "not",
            member.rack_id,
        )
