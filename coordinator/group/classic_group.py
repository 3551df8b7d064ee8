"""The state of a classic group and how records change it.

Time and requests do not occur here. The rules are in `classic/`.
"""

from dataclasses import replace
from typing import Self

from coordinator.copy_on_write.table import CountTable, Forkable, Table
from coordinator.group.classic_phases import stored_phase
from coordinator.interface.records import (
    ClassicGenerationBegun,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMemberRemoval,
    protocol_names,
)
from coordinator.interface.volatile_records import (
    ClassicCore,
    ClassicCoreMoved,
    ClassicGroupMemberDropped,
    ClassicGroupMemberPut,
    ClassicPhase,
    ClassicVolatileRecord,
    JoinParked,
    JoinReleased,
    ParkedJoin,
    PendingIdAdded,
    PendingIdDropped,
    SyncParked,
    SyncReceived,
    SyncReleased,
    SyncsExpected,
    Token,
)

ClassicRecord = (
    ClassicGroupMetadata | ClassicMemberRemoval | ClassicGenerationBegun | ClassicVolatileRecord
)


class ClassicGroup(Forkable):
    """A leader-based group (rule 2.1).

    `joins` and `syncs` have the parked requests by member id, and `unsynced` the members whose
    SyncGroup of this generation is missing. `instances` maps instance ids to member ids. `offers`
    counts the members that offer a protocol. `stored` has the members of the stored group that a
    restart restores, `removals` those that it does not.
    """

    __slots__ = (
        "core",
        "instances",
        "joins",
        "members",
        "offers",
        "pending_ids",
        "removals",
        "stored",
        "syncs",
        "unsynced",
    )

    def __init__(self) -> None:
        self.core = ClassicCore()
        self.members: Table[str, ClassicGroupMember] = Table()
        self.instances: Table[str, str] = Table()
        self.offers: CountTable[str] = CountTable()
        self.pending_ids: Table[str, None] = Table()
        self.joins: Table[str, ParkedJoin] = Table()
        self.syncs: Table[str, Token] = Table()
        self.unsynced: Table[str, None] = Table()
        self.stored: Table[str, None] = Table()
        self.removals: Table[str, None] = Table()

    def fork(self) -> Self:
        """Copies eagerly what nearly every step uses."""
        twin = super().fork()
        twin.core, twin.members = self.core, self.members.fork()
        return twin

    @property
    def phase(self) -> ClassicPhase:
        """The state of the group, in Kafka's words."""
        return self.core.phase

    @property
    def is_quiet(self) -> bool:
        """Whether there is no member, pending id or parked request."""
        return not (self.members or self.pending_ids or self.joins or self.syncs)

    def stored_value(self) -> ClassicGroupValue:
        """The value of the group's durable record."""
        return ClassicGroupValue(
            protocol_type=self.core.protocol_type,
            generation=self.core.generation,
            protocol=self.core.protocol,
            leader=self.core.leader,
            members=tuple(self.members.values()),
            unwatched_hash=self.core.unwatched_hash,
            older_epochs={
                id_: epoch for id_, epoch in self.core.older_epochs.items() if id_ in self.members
            },
        )

    def apply(self, record: ClassicRecord) -> None:
        """Change the group as the record says."""
        match record:
            case ClassicGroupMetadata(value=value):
                if value is not None:
                    self._load(value)
            case ClassicMemberRemoval():
                self._remove(record)
            case ClassicGenerationBegun(generation=generation):
                self._begin(generation)
            case ClassicCoreMoved(core):
                self.core = core
            case ClassicGroupMemberPut(member):
                self._put(member)
            case ClassicGroupMemberDropped(member_id):
                self._drop(member_id)
            case PendingIdAdded(member_id):
                self.pending_ids.put(member_id, None)
            case PendingIdDropped(member_id):
                self.pending_ids.drop(member_id)
            case JoinParked(member_id, join):
                self.joins.put(member_id, join)
            case JoinReleased(member_id):
                self.joins.drop(member_id)
            case SyncParked() | SyncReleased() | SyncsExpected() | SyncReceived():
                self._apply_to_syncs(record)

    def _apply_to_syncs(
        self, record: SyncParked | SyncReleased | SyncsExpected | SyncReceived
    ) -> None:
        match record:
            case SyncParked(member_id, token):
                self.syncs.put(member_id, token)
            case SyncReleased(member_id):
                self.syncs.drop(member_id)
            case SyncsExpected(member_ids):
                self.unsynced.clear()
                for member_id in member_ids:
                    self.unsynced.put(member_id, None)
            case SyncReceived(member_id):
                self.unsynced.drop(member_id)

    def _load(self, value: ClassicGroupValue) -> None:
        """Restore a stored group (rule 2.10)."""
        self.core = replace(
            self.core,
            phase=stored_phase(value),
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol=value.protocol,
            leader=value.leader,
            unwatched_hash=value.unwatched_hash,
            older_epochs=value.older_epochs,
            initial_delay=None,
        )
        self.members.clear()
        self.instances.clear()
        self.offers.clear()
        self.stored.clear()
        for member in value.members:
            self._put(member)
            self.stored.put(member.member_id, None)

    def _remove(self, record: ClassicMemberRemoval) -> None:
        """Remove a stored member. On replay, this record is the only sign of its removal."""
        member_id = record.member_id
        if record.cause is None:
            self.removals.drop(member_id)
            return
        self._drop(member_id)
        if self.core.leader == member_id:
            self.core = replace(self.core, leader=None)
        self.stored.drop(member_id)
        self.removals.put(member_id, None)

    def _begin(self, generation: int | None) -> None:
        """Begin a generation. On replay, its members have not got their assignments yet. Their
        clients know this generation or the one before, and may present either until they have
        rejoined."""
        self.core = replace(self.core, has_begun=generation is not None)
        if generation is not None:
            before = self.core.generation
            older_epochs = {id_: self.core.older_epochs.get(id_, before) for id_ in self.members}
            self.core = replace(self.core, generation=generation, older_epochs=older_epochs)

    def _put(self, member: ClassicGroupMember) -> None:
        before = self.members.get(member.member_id)
        if before is None or before.protocols != member.protocols:
            self.offers.remove(protocol_names(before.protocols) if before is not None else ())
            self.offers.add(protocol_names(member.protocols))
        self.members.put(member.member_id, member)
        if member.instance_id is not None:
            self.instances.put(member.instance_id, member.member_id)

    def _drop(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None:
            return
        self.members.drop(member_id)
        self.offers.remove(protocol_names(member.protocols))
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            self.instances.drop(member.instance_id)
        self.unsynced.drop(member_id)
        if member_id in self.core.told_to_rejoin:
            asked_to_rejoin = self.core.told_to_rejoin - {member_id}
            self.core = replace(self.core, told_to_rejoin=asked_to_rejoin)
