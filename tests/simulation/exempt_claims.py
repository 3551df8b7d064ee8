"""Finds the claims of clients that the ownership checks must ignore.

- *Stale*: the group removed the member after it granted the partition, and the client does not know
  yet. The engine must refuse such commits and fetches.
- *Void*: no rule of the protocol could have reserved the partition for the client. A late
  JoinGroup of the client stated outdated partitions, or a leader made an invalid assignment.

The offset checks ignore a partition for the rest of the run once a claim to it was void, or once
its client came back with a stale claim, into the classic generations or by a late request to join:
from then on its commits have the current generation or epoch, and no coordinator asks whose
partition they are for (rules 2.9, 3.15).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence, Set

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import INT32_MAX
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    Request,
)
from coordinator.interface.records import (
    ClassicGroupMetadata,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupEpoch,
    RemovalCause,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ClassicGroupMemberPut,
    ClassicPhase,
    JoinReleased,
)
from kafka_codecs.consumer_protocol import NO_GENERATION, decode_subscription
from tests.simulation import leader
from tests.simulation.client import Claim, Client
from tests.simulation.watch_members import removed_members
from tests.simulation.whereabouts import Whereabouts
from tests.simulation.world import World

# An embedded subscription states its generation from version 2 on.
FIRST_VERSION_WITH_GENERATION = 2


class ExemptClaims:
    """Records until when a grant is in question, by member id, client name and partition."""

    def __init__(
        self,
        world: World,
        clients: Sequence[Client],
        state: Callable[[], GroupState],
        lies: Set[bytes],
        whereabouts: Whereabouts,
    ) -> None:
        self.partitions: set[Partition] = set()
        self.overtaken_owners: set[str] = set()
        """Clients with a late request that stated owned partitions. It may have acknowledged an
        assignment that they never received."""
        self._world, self._clients, self._state, self._lies = world, clients, state, lies
        self._whereabouts = whereabouts
        self._moving: Set[str] = frozenset()
        """The members in the record of a move."""
        self._removed_ms: dict[str, int] = {}
        self._doubted_ms: defaultdict[str, dict[Partition, int]] = defaultdict(dict)
        self._distrusted_ms: dict[str, int] = {}
        self._returned: set[str] = set()
        """Members that joined after they had been removed, perhaps by a late request."""
        self._members: Set[str] = frozenset()
        self._liars: set[str] = set()
        """The member ids of dishonest clients. Such a member may outlive its client."""

    def is_stale(self, claim: Claim) -> bool:
        """Whether the group removed the member after it granted the partition."""
        return claim.granted_ms <= self._removed_ms.get(claim.member_id, 0)

    def is_void(self, client: Client, partition: Partition, claim: Claim) -> bool:
        """Whether the engine could not have kept the partition from another client."""
        if claim.is_lie or claim.granted_ms <= self._distrusted_ms.get(client.name, 0):
            return True
        doubted_ms = self._doubted_ms.get(client.name)
        return doubted_ms is not None and claim.granted_ms <= doubted_ms.get(partition, 0)

    # -- observations ----------------------------------------------------------------------------

    def after_step(self, step: Step, group: ClassicGroup | ConsumerGroup | None) -> None:
        """Record removed members, absent static members, and lies, after a step that changed the
        group here or in the cluster."""
        members, here = self._whereabouts.members, group.members if group is not None else ()
        joined = {record.member_id for record in step.records if isinstance(record, JoinReleased)}
        removed = removed_members(step).keys() | self._left_behind(step, joined, group)
        gone = {id_ for id_ in removed if id_ in here or id_ not in members}
        gone |= self._moving - members
        self._moving = frozenset(self._whereabouts.moving)
        self._returned |= (members - self._members) & self._removed_ms.keys()
        for member_id in gone:
            self._removed_ms[member_id] = self._world.now_ms
        for client in self._clients:
            if client.member_id in gone and client.claims:
                self._world.counts["removed owners"] += 1
            if not client.is_honest:
                self._liars.update(client.member_ids)
            elif client.member_id in joined or client.member_id in self._returned:
                stale = (p for p, claim in client.claims.items() if self.is_stale(claim))
                self.partitions.update(stale)
        self._record_lies(step)
        self._record_liars(step)
        self._members = members

    def after_load(self, unseen: Sequence[Sequence[DurableRecord]]) -> None:
        """Record the members that a restart forgot or restored, and the lies in the batches of
        steps that took effect only with the load: their write was in doubt, or its writer died."""
        for batch in unseen:
            self._record_lies(Step(records=tuple(batch)))
            self._record_liars(Step(records=tuple(batch)))
        members = self._whereabouts.members
        self._moving = frozenset(self._whereabouts.moving)
        for member_id in self._members - members:
            self._removed_ms[member_id] = self._world.now_ms
        for client in self._clients:
            if all(self._is_backed(client, *owned) for owned in client.claims.items()):
                for claim in client.claims.values():
                    self._removed_ms.pop(claim.member_id, None)
        self._members = members

    def _is_backed(self, client: Client, partition: Partition, claim: Claim) -> bool:
        """Whether the log gives the partition to the member. Membership in a classic group proves
        nothing, because the stored generation may have begun without a static member."""
        match self._whereabouts.here:
            case ConsumerGroup() as group:
                return group.holders.get(partition) == claim.member_id
            case ClassicGroup() as group if claim.member_id in group.members:
                name = client.context.network.cluster.names[partition.topic_id]
                assignment = group.members[claim.member_id].assignment
                return (name, partition.number) in leader.read_assignment(assignment)
            case _:
                return False

    def _left_behind(
        self, step: Step, joined: Set[str], group: ClassicGroup | ConsumerGroup | None
    ) -> Set[str]:
        """Static members that a new generation of a classic group began without."""
        starts = any(
            isinstance(record, ClassicCoreMoved)
            and record.core.phase is ClassicPhase.COMPLETING_REBALANCE
            for record in step.records
        )
        if not starts or not isinstance(group, ClassicGroup):
            return frozenset()
        return group.members.keys() - joined

    def _record_lies(self, step: Step) -> None:
        for record in step.records:
            if isinstance(record, ClassicGroupMetadata) and record.value is not None:
                given = [member.assignment for member in record.value.members]
                if not self._lies.isdisjoint(given):
                    for client in self._clients:
                        self._distrust(client)

    def _record_liars(self, step: Step) -> None:
        """A leader or a conversion may believe the owned partitions that a liar states, while their
        owner still has to give them up. The group reserves them for the liar or its heir."""
        if not self._liars:
            return
        converted, inherited = self._converted_liars(step), self._inherited_from_liars(step)
        if not converted and not inherited:
            return
        for client in self._clients:
            names = client.context.network.cluster.names
            for partition in client.claims:
                name = (names[partition.topic_id], partition.number)
                if client.is_honest and (partition in converted or name in inherited):
                    self._doubt(client, partition)

    def _converted_liars(self, step: Step) -> Set[Partition]:
        """The partitions of liars in a group that this step converted. The joiner may already have
        replaced its liar."""
        is_converted = any(
            isinstance(record, GroupEpoch) and record.cause is EpochCause.CONVERTED
            for record in step.records
        )
        return {
            partition
            for record in step.records
            if is_converted and isinstance(record, CurrentAssignment)
            if record.value is not None and record.member_id in self._liars
            for partition in record.value.held_partitions
        }

    def _inherited_from_liars(self, step: Step) -> Set[leader.Name]:
        """The partitions of a static classic member that replaced a liar in this step."""
        replaced = {
            member_id
            for member_id, cause in removed_members(step).items()
            if cause is RemovalCause.REPLACED
        }
        return {
            name
            for record in step.records
            if isinstance(record, ClassicGroupMemberPut) and replaced & self._liars
            for name in leader.read_assignment(record.member.assignment)
        }

    def overtaken(self, client: Client, request: Request) -> None:
        """Doubt the client's claims after one of its requests arrived late.

        The request states outdated partitions, and the engine cannot see that for partitions
        granted up to the epoch that it states.
        """
        if isinstance(request, ConsumerHeartbeatReceived) and request.owned is not None:
            self.overtaken_owners.add(client.name)
        known_epoch = _epoch_that_proves(request)
        if known_epoch is None or getattr(request, "member_id", "") != client.member_id:
            return
        group = self._state().group
        if not isinstance(group, ConsumerGroup):
            self._distrust(client)
        elif client.member_id in group.assignments:
            for partition, epoch in group.assignments[client.member_id].held_partitions.items():
                if epoch <= known_epoch:
                    self._doubt(client, partition)

    def _doubt(self, client: Client, partition: Partition) -> None:
        self._doubted_ms[client.name][partition] = self._world.now_ms
        self.partitions.add(partition)

    def _distrust(self, client: Client) -> None:
        self._distrusted_ms[client.name] = self._world.now_ms
        self.partitions.update(client.claims)


def _epoch_that_proves(request: Request) -> int | None:
    """The newest assignment epoch for which the request's list of owned partitions counts as proof;
    None without a list."""
    match request:
        case JoinGroupReceived(protocols=protocols):
            version, subscription = decode_subscription(protocols[0][1])
            generation = subscription.generation_id
            is_stated = version >= FIRST_VERSION_WITH_GENERATION and generation > NO_GENERATION
            return generation if is_stated else INT32_MAX
        case _:
            return None
