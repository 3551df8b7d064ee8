"""Translates the engine's records into a group's events.

All events of groups that follow from records are made here, so events and state cannot disagree.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.classic_phases import stored_phase
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import read_stored_assignment
from coordinator.group.state import GroupState, Record
from coordinator.interface.errors import GroupError
from coordinator.interface.records import (
    Assignment,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    CurrentAssignment,
    EpochCause,
    GroupConfigs,
    GroupEpoch,
    Member,
    MemberMetadata,
    RegularExpression,
    RemovalCause,
    ResolvedRegex,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import (
    ChosenMember,
    ClassicCore,
    ClassicCoreMoved,
    ClassicGroupMemberDropped,
    ClassicGroupMemberPut,
    ClassicPhase,
    CommitEnded,
    CommitStarted,
    ComputationFailed,
    DeadlineCleared,
    DeadlineSet,
    GrantMoved,
    JoinParked,
    JoinReleased,
    MemberChosen,
    MemberPhase,
    MemberPhaseMoved,
    RegexResolutionMoved,
    RepetitionMoved,
    SyncParked,
    SyncReceived,
    SyncReleased,
    SyncsExpected,
    TopicsChecked,
)
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    AssignmentRejected,
    GroupConfigsAltered,
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    GroupEpochBumped,
    GroupStateChanged,
    RegexResolved,
    TargetComputed,
)
from gateway.events.member_events import (
    GrantEndCause,
    GrantEnded,
    MemberChosenToCompute,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateChanged,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsRevoked,
    Protocol,
)
from gateway.events.topic_ids import topic_ids

AnyMember = ClassicGroupMember | Member

NAMED_TOPICS_MAX = 20
"""How many added or removed topics an event about a regular expression names."""

_WITHOUT_EVENT = frozenset(
    {
        *(DeadlineSet, DeadlineCleared, CommitStarted, CommitEnded),
        *(JoinParked, JoinReleased, SyncParked, SyncReleased, SyncsExpected, SyncReceived),
        *(TopicsChecked, RepetitionMoved, GrantMoved, RegexResolutionMoved),
    }
)
"""Frequent records that cause no event, and that no event depends on."""

_VOLUNTARY = frozenset({RemovalCause.LEFT, RemovalCause.REMOVED_BY_ADMIN, RemovalCause.RELEASED})
_END_CAUSES: Mapping[RemovalCause, GrantEndCause] = MappingProxyType(
    {
        RemovalCause.REPLACED: "replaced",
        RemovalCause.GROUP_CONVERTED: "reassigned",
        RemovalCause.GROUP_TAKEN: "group_moved",
        RemovalCause.GENERATION_WENT_BACK: "group_moved",
        RemovalCause.RELEASED: "group_moved",
        RemovalCause.LEFT: "left",
        RemovalCause.REMOVED_BY_ADMIN: "left",
    }
)
"""How the grants of a removed member end. With any other cause the group has fenced it."""
_NOTHING = Assignment(member_epoch=0, previous_epoch=0)
_STILL_THERE = frozenset({RemovalCause.REPLACED, RemovalCause.GROUP_CONVERTED})


def has_events(records: Iterable[Record]) -> bool:
    """Whether records may cause events. Those of a heartbeat that changes nothing, or of a commit,
    do not."""
    return not _WITHOUT_EVENT.issuperset(map(type, records))


def translate(fork: GroupEngine, records: Sequence[Record], topics: Topics) -> list[GatewayEvent]:
    """The events of one decision. Its records are applied to `fork`, the group as it was before."""
    return list(_Translator(fork, records, topics).translate())


class _Translator:
    """Compares the group before and after each record of a decision."""

    def __init__(self, fork: GroupEngine, records: Sequence[Record], topics: Topics) -> None:
        self._fork = fork
        self._state = state = fork.state
        self._records = records
        self._topics = topics
        self._removals = {
            record.member_id: record.cause
            for record in records
            if isinstance(record, MemberMetadata) and record.value is None
        }
        self._conversion = _conversion(state, records)
        self._keeps_kind = self._conversion is None
        self._turns_classic = not self._keeps_kind and isinstance(state.group, ConsumerGroup)
        # A replacement is stored first as a copy of the replaced member, then under its own data.
        self._new = _new_members(state, records)
        self._joined: set[str] = set()
        self._carried_over = _carried_over(state, topics) if self._conversion else {}
        self._moved = 0

    def translate(self) -> Iterator[GatewayEvent]:
        for record in self._records:
            if type(record) not in _WITHOUT_EVENT:
                yield from self._events(record)
            self._fork.apply(record)

    def _events(self, record: Record) -> Iterator[GatewayEvent]:
        match record:
            case ClassicGroupMetadata(value=value):
                yield from self._classic_group(value)
            case ClassicCoreMoved(core):
                yield from self._classic_state(core)
            case ClassicGroupMemberPut(member):
                yield from self._classic_group_member(member)
            case ClassicGroupMemberDropped(member_id, cause):
                yield from self._classic_member_dropped(member_id, cause)
            case MemberPhaseMoved(member_id, phase):
                yield from self._phase(member_id, phase)
            case GroupConfigs(overrides=overrides):
                yield GroupConfigsAltered(overrides=overrides)
            case _:
                yield from self._consumer_events(record)

    def _consumer_events(self, record: Record) -> Iterator[GatewayEvent]:
        match record:
            # The epoch of a group that the batch makes classic is never in force.
            case GroupEpoch(epoch=int(epoch), cause=cause) if (
                cause is not EpochCause.CONVERTED and not self._turns_classic
            ):
                yield GroupEpochBumped(group_epoch=epoch, cause=cause)
            case GroupEpoch(epoch=None) if self._keeps_kind:
                yield GroupDeleted()
            case MemberMetadata(member_id=member_id, value=None, cause=RemovalCause() as cause):
                yield from self._translate_removed(member_id, cause)
            case MemberMetadata(value=Member() as member):
                yield from self._member(member)
            case TargetAssignmentMember(member_id=member_id, partitions=partitions) if partitions:
                self._moved += len(partitions - self._target_of(member_id))
            case TargetAssignmentMetadata():
                yield from self._target(record)
            case ComputationFailed(epoch=epoch, assignor=assignor, reason=reason):
                yield AssignmentRejected(group_epoch=epoch, assignor=assignor, reason=reason)
            case MemberChosen(chosen=ChosenMember(member_id=member_id)):
                yield MemberChosenToCompute(member_id=member_id)
            case CurrentAssignment(member_id=member_id, value=assignment):
                yield from self._assignment(member_id, assignment)
            case RegularExpression(regex=regex, value=ResolvedRegex(topics=topics)):
                yield from self._regex(regex, topics)
            case _:
                pass

    def _target(self, record: TargetAssignmentMetadata) -> Iterator[GatewayEvent]:
        """A target without an assignor was not computed: an upgrade took it over."""
        if record.assignor is not None and record.epoch is not None:
            yield TargetComputed(
                assignment_epoch=record.epoch,
                assignor=record.assignor,
                partitions_moved=self._moved,
            )
        self._moved = 0

    def _classic_group(self, value: ClassicGroupValue | None) -> Iterator[GatewayEvent]:
        if self._conversion is not None:
            yield self._conversion
            self._conversion = None
        elif value is None and self._keeps_kind:
            yield GroupDeleted()
        elif value is not None and self._state.group is None:
            yield GroupCreated(kind="classic")
        if value is not None and isinstance(self._state.group, ClassicGroup):
            yield from self._classic_assignments(self._state.group, value)
        elif value is not None:
            yield from self._translate_adopted(value)

    def _translate_adopted(self, value: ClassicGroupValue) -> Iterator[GatewayEvent]:
        """Members that come with their group from another coordinator (rule 2.11), where those of a
        converted group were here before. What they have is not told, because the group's topics are
        not known yet."""
        came = [
            member
            for member in value.members
            if member.member_id in self._new and member.member_id not in self._joined
        ]
        if not came:
            return
        yield GroupStateChanged(
            from_state=ClassicPhase.EMPTY,
            to_state=stored_phase(value),
            generation=value.generation,
        )
        yield from map(self._arrival, came)

    def _classic_assignments(
        self, group: ClassicGroup, value: ClassicGroupValue
    ) -> Iterator[GatewayEvent]:
        """The leader distributed an assignment, or the last member left."""
        reached = stored_phase(value)
        if group.phase is not reached:
            yield GroupStateChanged(
                from_state=group.phase,
                to_state=reached,
                generation=value.generation,
            )
        epoch = value.generation
        moved = {
            member.member_id: self._released_and_assigned(group, member, value.protocol)
            for member in value.members
        }
        successors = {
            partition: member_id
            for member_id, (_released, assigned) in moved.items()
            for partition in assigned
        }
        for member_id, (released, _assigned) in moved.items():
            by_successor: dict[str | None, list[Partition]] = {}
            for partition in released:
                by_successor.setdefault(successors.get(partition), []).append(partition)
            for successor, partitions in sorted(by_successor.items(), key=str):
                yield from self._end_grants(member_id, epoch, partitions, "reassigned", successor)
        for member_id, (_released, assigned) in moved.items():
            yield from self._start_grants(member_id, epoch, assigned)

    def _classic_state(self, core: ClassicCore) -> Iterator[GatewayEvent]:
        group = self._state.group
        before = group.core if isinstance(group, ClassicGroup) else ClassicCore()
        if core.phase != before.phase:
            yield GroupStateChanged(
                from_state=before.phase,
                to_state=core.phase,
                generation=core.generation,
            )

    def _classic_group_member(self, member: ClassicGroupMember) -> Iterator[GatewayEvent]:
        """A new member, with the partitions of the member that it replaces, if any. For a known
        member, an interrupted rebalance takes its assignment away (rule 2.6)."""
        group = self._state.group
        if not isinstance(group, ClassicGroup) or member.member_id not in group.members:
            yield self._arrival(member)
        if isinstance(group, ClassicGroup):
            epoch, protocol = group.core.generation, group.core.protocol
            released, assigned = self._released_and_assigned(group, member, protocol)
            yield from self._end_grants(member.member_id, epoch, released, "reassigned")
            yield from self._start_grants(member.member_id, epoch, assigned)

    def _classic_member_dropped(
        self, member_id: str, cause: RemovalCause
    ) -> Iterator[GatewayEvent]:
        group = self._state.group
        if isinstance(group, ClassicGroup) and cause is not RemovalCause.GROUP_CONVERTED:
            partitions = _has(group, member_id, self._topics)
            yield from self._ended_by_removal(member_id, group.core.generation, partitions, cause)
        yield from self._translate_removed(member_id, cause)

    def _member(self, member: Member) -> Iterator[GatewayEvent]:
        group = self._state.group
        if member.member_id in self._carried_over:
            return
        before = group.members.get(member.member_id) if isinstance(group, ConsumerGroup) else None
        if before is None:
            if not isinstance(group, ConsumerGroup) and self._keeps_kind:
                yield GroupCreated(kind="consumer")
            yield self._arrival(member)
        elif before.is_classic != member.is_classic and member.member_id not in self._joined:
            yield MemberSwitched(member_id=member.member_id, protocol=_protocol(member))

    def _arrival(self, member: AnyMember) -> GatewayEvent:
        self._joined.add(member.member_id)
        return _translate_joined(self._new.get(member.member_id, member))

    def _translate_removed(self, member_id: str, cause: RemovalCause) -> Iterator[GatewayEvent]:
        if cause is RemovalCause.REPLACED:
            yield MemberReplaced(member_id=member_id, replaced_by=self._successor(member_id))
        elif cause in _VOLUNTARY:
            yield MemberLeft(member_id=member_id, cause=cause)
        elif cause not in _STILL_THERE:
            yield MemberFenced(member_id=member_id, cause=cause)

    def _successor(self, member_id: str) -> str | None:
        """The new member id of a replaced static member."""
        group = self._state.group
        old = group.members.get(member_id) if group is not None else None
        for member in self._new.values():
            if old is not None and member.instance_id == old.instance_id:
                return member.member_id
        return None

    def _target_of(self, member_id: str) -> frozenset[Partition]:
        group = self._state.group
        return group.target_of(member_id) if isinstance(group, ConsumerGroup) else frozenset()

    def _assignment(self, member_id: str, after: Assignment | None) -> Iterator[GatewayEvent]:
        group = self._state.group
        if after is None and self._removals.get(member_id) is RemovalCause.GROUP_CONVERTED:
            return
        before = group.assignments.get(member_id) if isinstance(group, ConsumerGroup) else None
        epoch = (after or before or _NOTHING).member_epoch
        had, has = before or _NOTHING, after or _NOTHING
        assigned_before = had.assigned.keys() | self._carried_over.pop(member_id, frozenset())
        held_before = assigned_before | had.pending_revocation.keys()
        held_after = has.assigned.keys() | has.pending_revocation.keys()
        revoked = held_before & (has.pending_revocation.keys() - had.pending_revocation.keys())
        yield from self._partitions_event(PartitionsRevoked, member_id, epoch, revoked)
        ended, cause = held_before - held_after, self._removals.get(member_id)
        if after is None and cause is not None:
            yield from self._ended_by_removal(member_id, epoch, ended, cause)
        else:
            yield from self._end_grants(member_id, epoch, ended, "revoked")
        yield from self._start_grants(
            member_id, epoch, (held_after - held_before) | (has.assigned.keys() - assigned_before)
        )

    def _ended_by_removal(
        self, member_id: str, epoch: int, partitions: Iterable[Partition], removal: RemovalCause
    ) -> Iterator[GatewayEvent]:
        is_replaced = removal is RemovalCause.REPLACED
        successor = self._successor(member_id) if is_replaced else None
        if is_replaced and member_id in self._new:  # it takes another instance id
            successor = member_id
        cause = _END_CAUSES.get(removal, "fenced")
        return self._end_grants(member_id, epoch, partitions, cause, successor)

    def _end_grants(
        self,
        member_id: str,
        epoch: int,
        partitions: Iterable[Partition],
        cause: GrantEndCause,
        successor: str | None = None,
    ) -> Iterator[GatewayEvent]:
        make = partial(GrantEnded, cause=cause, successor=successor)
        return self._partitions_event(make, member_id, epoch, partitions)

    def _start_grants(
        self, member_id: str, epoch: int, partitions: Iterable[Partition]
    ) -> Iterator[GatewayEvent]:
        return self._partitions_event(PartitionsAssigned, member_id, epoch, partitions)

    def _partitions_event(
        self,
        make: Callable[..., GatewayEvent],
        member_id: str,
        epoch: int,
        partitions: Iterable[Partition],
    ) -> Iterator[GatewayEvent]:
        """An event without the partitions of deleted topics, which `topics_deleted` reported."""
        named = self._topics.names(partitions)
        if named:
            yield make(
                member_id=member_id,
                member_epoch=epoch,
                partitions=named,
                topic_ids=topic_ids(self._topics, named),
            )

    def _regex(self, regex: str, topics: frozenset[str]) -> Iterator[GatewayEvent]:
        """A refresh with the same result is no event."""
        group = self._state.group
        known = group.regexes.get(regex) if isinstance(group, ConsumerGroup) else None
        before = known.topics if known is not None else frozenset[str]()
        if known is None or topics != before:
            yield RegexResolved(
                regex=regex,
                matches=len(topics),
                added=tuple(sorted(topics - before)[:NAMED_TOPICS_MAX]),
                removed=tuple(sorted(before - topics)[:NAMED_TOPICS_MAX]),
            )

    def _phase(self, member_id: str, phase: MemberPhase) -> Iterator[GatewayEvent]:
        group = self._state.group
        if isinstance(group, ConsumerGroup):
            before = group.phases.get(member_id, MemberPhase.STABLE)
            yield MemberStateChanged(
                member_id=member_id,
                from_state=before,
                to_state=phase,
            )

    def _released_and_assigned(
        self, group: ClassicGroup, member: ClassicGroupMember, protocol: str | None
    ) -> tuple[frozenset[Partition], frozenset[Partition]]:
        """What the leader's assignment takes from a member, and what it adds."""
        known = group.members.get(member.member_id)
        is_same = known is not None and known.assignment == member.assignment
        if is_same and group.core.protocol == protocol:
            return frozenset(), frozenset()
        before = _has(group, member.member_id, self._topics)
        after = _read_embedded(member.assignment, protocol, self._topics)
        return before - after, after - before


def _conversion(state: GroupState, records: Sequence[Record]) -> GatewayEvent | None:
    """The event of a batch that converts the group; None for other batches."""
    match state.group:
        case ClassicGroup() as group:
            joined = [r.value for r in records if isinstance(r, MemberMetadata) and r.value]
            native = [member for member in joined if not member.is_classic]
            if not native:
                return None
            return GroupConverted(
                direction="classic->consumer",
                is_live=bool(group.members),
                group_epoch=group.core.generation,
                members=len(group.members),
                cause=f"{native[0].member_id} joined",
            )
        case ConsumerGroup() as group:
            made = [r.value for r in records if isinstance(r, ClassicGroupMetadata) and r.value]
            if not made:
                return None
            return GroupConverted(
                direction="consumer->classic",
                is_live=bool(group.members),
                generation=made[0].generation,
                members=len(made[0].members),
                cause=_departure(group, records),
            )
        case None:
            return None


def _departure(group: ConsumerGroup, records: Sequence[Record]) -> str:
    """The cause of a downgrade: how the last native member left or switched."""
    for record in records:
        match record:
            case MemberMetadata(member_id=id_, value=None, cause=RemovalCause() as cause):
                if cause is not RemovalCause.GROUP_CONVERTED:
                    return f"{id_} {cause.value}"
            case MemberMetadata(member_id=id_, value=Member()) if id_ in group.members:
                return f"{id_} switched"
            case _:
                pass
    return "only classic members are left" if group.members else "the group was empty"


def _carried_over(state: GroupState, topics: Topics) -> dict[str, frozenset[Partition]]:
    """The members of a classic group with their partitions. An upgrade keeps them all."""
    group = state.group
    if not isinstance(group, ClassicGroup):
        return {}
    return {member_id: _has(group, member_id, topics) for member_id in group.members}


def _has(group: ClassicGroup, member_id: str, topics: Topics) -> frozenset[Partition]:
    """The partitions that the leader assigned to a member."""
    member = group.members.get(member_id)
    return _read_embedded(member.assignment, group.core.protocol, topics) if member else frozenset()


def _read_embedded(assignment: bytes, protocol: str | None, topics: Topics) -> frozenset[Partition]:
    try:
        return read_stored_assignment(assignment, topics, protocol=protocol)
    except GroupError:  # a custom format, without partitions that the gateway could name
        return frozenset()


def _new_members(state: GroupState, records: Sequence[Record]) -> dict[str, AnyMember]:
    """The members that this batch adds, as they are at its end. A member that gives up its place
    for another instance's is removed and added in the same batch."""
    seen: dict[str, AnyMember] = {}
    removed: set[str] = set()
    for record in records:
        match record:
            case MemberMetadata(member_id=member_id, value=None, cause=RemovalCause.REPLACED):
                seen.pop(member_id, None)
                removed.add(member_id)
            case MemberMetadata(value=Member() as member) | ClassicGroupMemberPut(member):
                seen[member.member_id] = member
            case ClassicGroupMetadata(value=ClassicGroupValue(members=members)):
                seen |= {member.member_id: member for member in members}
            case _:
                pass
    old: Container[str] = state.group.members if state.group is not None else ()
    return {
        member_id: member
        for member_id, member in seen.items()
        if member_id not in old or member_id in removed
    }


def _protocol(member: AnyMember) -> Protocol:
    return "classic" if isinstance(member, ClassicGroupMember) or member.is_classic else "consumer"


def _translate_joined(member: AnyMember) -> GatewayEvent:
    return MemberJoined(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.instance_id,
        protocol=_protocol(member),
    )
