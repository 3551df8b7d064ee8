"""The state of one group of either kind, and `apply`, the only place where it changes.

Time and requests do not occur here. The rules decide which records to write.
"""

from collections.abc import Mapping
from typing import Self, TypeGuard, get_args

from coordinator.copy_on_write.table import CountTable, Forkable, Table
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup, ConsumerRecord
from coordinator.interface.records import (
    AdoptionRecord,
    AdoptionState,
    ClassicGenerationBegun,
    ClassicGroupMetadata,
    ClassicMemberRemoval,
    CurrentAssignment,
    DurableRecord,
    GroupConfigs,
    GroupEpoch,
    MemberMetadata,
    RegularExpression,
    ReleaseRecord,
    ReleaseState,
    ServedBySetting,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    is_tombstone,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import (
    CommitEnded,
    CommitInFlight,
    CommitStarted,
    ComputationFailed,
    ComputationStarted,
    Conversions,
    ConversionsMoved,
    DeadlineCleared,
    DeadlineKey,
    DeadlineSet,
    DynamicMemberLeft,
    GrantMoved,
    MemberChosen,
    MemberDeparted,
    MemberPhaseMoved,
    MemberReturned,
    MemberSlot,
    MemberSlotMoved,
    ProtocolChanged,
    RegexResolution,
    RegexResolutionMoved,
    RepetitionMoved,
    Token,
    TopicsChecked,
    VolatileRecord,
)

Record = DurableRecord | VolatileRecord

DURABLE_TYPES = frozenset(get_args(DurableRecord))


def is_durable(record: Record) -> TypeGuard[DurableRecord]:
    """Whether the log needs the record."""
    return type(record) in DURABLE_TYPES


FORMER_INSTANCES_MAX = 1_000
"""Beyond this many, the instance of the member that was removed first is forgotten."""


class GroupState(Forkable):
    """The state of one group. `group` is None while the group does not exist.

    Deadlines, commits in flight, the resolution of regular expressions and the count of conversions
    are independent of the kind of group, so they survive a conversion. Config overrides survive the
    group. `adoption` is set while another coordinator serves the group, and this one is about to
    take it over. `release` is set from the moment on when this one begins to hand the group back.
    """

    __slots__ = (
        "adoption",
        "commits",
        "committing",
        "config_overrides",
        "conversions",
        "deadlines",
        "departed",
        "former_instances",
        "group",
        "group_id",
        "is_served_by_setting",
        "last_return",
        "left_last",
        "member_slots",
        "protocol_changed_ms",
        "release",
        "resolution",
        "slots_by_client",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group: ClassicGroup | ConsumerGroup | None = None
        self.config_overrides: Mapping[str, int] = {}
        self.deadlines: Table[DeadlineKey, int] = Table()
        self.commits: Table[Token, CommitInFlight] = Table()
        self.committing: CountTable[Partition] = CountTable()
        """How many of the commits in flight each partition has."""
        self.resolution: RegexResolution | None = None
        self.conversions = Conversions()
        self.member_slots: Table[str, MemberSlot] = Table()
        """Keyed by the ids of members that left."""
        self.slots_by_client: Table[tuple[str, str], tuple[str, ...]] = Table()
        """The ids of kept slots, by client id and host."""
        self.last_return: MemberReturned | None = None
        self.protocol_changed_ms = 0
        """When a member changed its protocol last; a restart forgets it."""
        self.left_last: DynamicMemberLeft | None = None
        self.departed: Table[str, None] = Table()
        """The ids of members that have left such a slot in the present assignment epoch, or whose
        instance another has taken."""
        self.former_instances: Table[str, str] = Table()
        """The instance ids of native members that were removed or replaced, by member id. A client
        that does not know yet need not name its instance."""
        self.adoption: AdoptionState | None = None
        self.release: ReleaseState | None = None
        self.is_served_by_setting = False
        """Whether a setting alone, and no operator, has the group served here."""

    def fork(self) -> Self:
        """Copies eagerly what nearly every step uses."""
        twin = super().fork()
        twin.group = self.group.fork() if self.group is not None else None
        twin.deadlines, twin.release = self.deadlines.fork(), self.release
        return twin

    @property
    def is_quiet(self) -> bool:
        """Whether there is no member, parked request or running deadline: the state may be
        unloaded."""
        if self.deadlines or self.commits or self.adoption is not None or self.is_leaving:
            return False
        match self.group:
            case ClassicGroup() as group:
                return group.is_quiet
            case ConsumerGroup() as group:
                return not group.members
            case None:
                return True

    @property
    def is_adopted(self) -> bool:
        """Whether the group is served here until an operator releases it, also while it is
        empty."""
        is_here = self.group is not None and self.release is None
        return is_here and not self.is_served_by_setting

    @property
    def is_leaving(self) -> bool:
        """Whether the group is on its way to another coordinator."""
        return self.release is not None and self.release.is_under_way

    def apply(self, record: Record) -> None:  # noqa: PLR0912  # one case for each kind of record
        """Apply a record. Replay passes only durable records, in any combination that log
        compaction can leave (rule 8.4). Frequent records come first."""
        match record:
            case DeadlineSet():
                self.deadlines.put(record.key, record.at_ms)
            case CommitStarted():
                if record.commit not in self.commits:
                    self.committing.add(record.in_flight.partitions)
                self.commits.put(record.commit, record.in_flight)
            case CommitEnded():
                if (ended := self.commits.get(record.commit)) is not None:
                    self.committing.remove(ended.partitions)
                    self.commits.drop(record.commit)
            case DeadlineCleared(key):
                self.deadlines.drop(key)
            case (
                CurrentAssignment()
                | MemberMetadata()
                | TargetAssignmentMember()
                | MemberPhaseMoved()
                | RepetitionMoved()
                | GrantMoved()
                | GroupEpoch()
                | TargetAssignmentMetadata()
                | TopicsChecked()
                | RegularExpression()
                | ComputationStarted()
                | ComputationFailed()
                | MemberChosen()
            ):
                self._apply_to_consumer_group(record)
            case GroupConfigs(overrides=overrides):
                self.config_overrides = overrides
            case AdoptionRecord(value=adoption):
                self.adoption = adoption
            case ReleaseRecord(value=release):
                self.release = release
            case ServedBySetting(is_so=is_so):
                self.is_served_by_setting = is_so
            case RegexResolutionMoved(resolution):
                self.resolution = resolution
            case ConversionsMoved(conversions):
                self.conversions = conversions
            case MemberSlotMoved(member_id, slot):
                self._move_slot(member_id, slot)
            case MemberReturned():
                self.last_return = record
            case ProtocolChanged(at_ms):
                self.protocol_changed_ms = at_ms
            case DynamicMemberLeft():
                self.left_last = record
            case MemberDeparted(member_id):
                self.departed.put(member_id, None)
            case ClassicGroupMetadata(value=None):
                if isinstance(self.group, ClassicGroup):
                    self.group = None
            case ClassicMemberRemoval() | ClassicGenerationBegun():
                if isinstance(self.group, ClassicGroup):
                    self.group.apply(record)
            case _:
                if not isinstance(self.group, ClassicGroup):
                    self.group = ClassicGroup()
                self.group.apply(record)

    def _move_slot(self, member_id: str, slot: MemberSlot | None) -> None:
        before, after = _client_of(self.member_slots.get(member_id)), _client_of(slot)
        if before is not None and before != after:
            others = tuple(
                other_id for other_id in self.slots_by_client[before] if other_id != member_id
            )
            if others:
                self.slots_by_client.put(before, others)
            else:
                self.slots_by_client.drop(before)
        if after is not None and before != after:
            self.slots_by_client.put(after, (*self.slots_by_client.get(after, ()), member_id))
        if slot is not None:
            self.member_slots.put(member_id, slot)
        else:
            self.member_slots.drop(member_id)

    def _apply_to_consumer_group(self, record: ConsumerRecord) -> None:
        if isinstance(record, TargetAssignmentMetadata) and self.departed:
            self.departed = Table()
        if isinstance(record, MemberMetadata) and record.value is None:
            self._remember_instance(record.member_id)
        if isinstance(record, GroupEpoch) and record.epoch is None:
            if isinstance(self.group, ConsumerGroup):
                self.group = None
        elif isinstance(self.group, ConsumerGroup):
            self.group.apply(record)
        elif not (is_durable(record) and is_tombstone(record)):
            self.group = ConsumerGroup()
            self.group.apply(record)

    def _remember_instance(self, member_id: str) -> None:
        """Keep the instance id of a native member that is about to be deleted."""
        group = self.group
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or member.is_classic or member.instance_id is None:
            return
        self.former_instances.drop(member_id)
        if len(self.former_instances) >= FORMER_INSTANCES_MAX:
            self.former_instances.drop(next(iter(self.former_instances)))
        self.former_instances.put(member_id, member.instance_id)


def _client_of(slot: MemberSlot | None) -> tuple[str, str] | None:
    """The client id and host of a member that left; None without a slot, or after a load."""
    if slot is None or slot.member is None:
        return None
    return slot.member.client_id, slot.member.client_host
