"""Builds the step of one event.

Rules read and write a fork of the state: `emit` records a change and makes it visible to the rules
that follow. The group itself changes only when the driver has logged the records and applies them.
"""

from collections.abc import Mapping, Sized
from uuid import UUID

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.classic_phases import check_phase, stored_phase
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState, Record, is_durable
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError, LongComputation
from coordinator.interface.records import ClassicGroupMetadata, CurrentAssignment, DurableRecord
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    Computation,
    DeadlineCleared,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    RegexResolution,
    Token,
)

SHORT_COMPUTATION_MAX = 1_000
"""Members plus partitions up to which a computation takes about ten milliseconds."""

PhaseRecord = ClassicCoreMoved | ClassicGroupMetadata
"""Records that may move a classic group to another phase."""


class StepBuilder:
    """A step under construction. `now_ms` is wall-clock milliseconds and never goes back."""

    __slots__ = (
        "computation",
        "config",
        "durable",
        "may_take_long",
        "now_ms",
        "records",
        "replies",
        "resolution",
        "state",
        "topics",
    )

    def __init__(
        self,
        state: GroupState,
        *,
        config: GroupConfig,
        topics: Topics,
        now_ms: int,
        may_take_long: bool = True,
    ) -> None:
        self.state = state.fork()
        self.config = config
        self.topics = topics
        self.now_ms = now_ms
        self.may_take_long = may_take_long
        self.records: list[Record] = []
        self.durable: list[DurableRecord] = []
        self.replies: list[tuple[Token, Reply]] = []
        self.resolution: RegexResolution | None = None
        self.computation: Computation | None = None

    @property
    def classic(self) -> ClassicGroup:
        """The group. The caller knows that it is a classic group."""
        if not isinstance(self.state.group, ClassicGroup):
            raise InvariantError("a rule of classic groups met another kind of group")
        return self.state.group

    @property
    def consumer(self) -> ConsumerGroup:
        """The group. The caller knows that it is a consumer group."""
        if not isinstance(self.state.group, ConsumerGroup):
            raise InvariantError("a rule of consumer groups met another kind of group")
        return self.state.group

    def emit(self, *records: Record) -> None:
        """Add records, and apply them to the fork."""
        for record in records:
            if isinstance(record, CurrentAssignment):
                self._guard_single_owner(record)
            elif isinstance(record, PhaseRecord):
                self._guard_phase(record)
            self.records.append(record)
            if is_durable(record):
                self.durable.append(record)
            self.state.apply(record)

    def check_time(self, members: Sized, partition_counts: Mapping[UUID, int]) -> None:
        """DEV D65: raises LongComputation if the step may not take as long as a target of this size
        needs."""
        size = len(members) + sum(partition_counts.values())
        if size > SHORT_COMPUTATION_MAX and not self.may_take_long:
            raise LongComputation

    def answer(self, token: Token, reply: Reply) -> None:
        """Add a reply. It leaves once every record of this step is durable."""
        self.replies.append((token, reply))

    def arm(self, kind: DeadlineKind, owner: str, length_ms: int) -> None:
        """Start or restart a deadline `length_ms` from now."""
        self.emit(DeadlineSet(DeadlineKey(kind, owner), self.now_ms + length_ms))

    def disarm(self, kind: DeadlineKind, owner: str = "") -> None:
        """Stop a deadline if it runs."""
        key = DeadlineKey(kind, owner)
        if key in self.state.deadlines:
            self.emit(DeadlineCleared(key))

    def is_armed(self, kind: DeadlineKind, owner: str = "") -> bool:
        return DeadlineKey(kind, owner) in self.state.deadlines

    def is_free_for(self, partition: Partition, member_id: str) -> bool:
        """Whether no other member holds the partition.

        DEV D34: the committer holds a partition until the cluster has answered its commit in
        flight. A new owner could otherwise start from an offset before that commit.
        """
        if self.consumer.holders.get(partition, member_id) != member_id:
            return False
        return partition not in self.state.committing or all(
            commit.member_id == member_id or partition not in commit.held
            for commit in self.state.commits.values()
        )

    def _guard_phase(self, record: PhaseRecord) -> None:
        """A classic group moves only as its table permits (rule 2.1)."""
        group = self.state.group
        before = group.phase if isinstance(group, ClassicGroup) else None
        match record:
            case ClassicCoreMoved(core):
                check_phase(before, core.phase)
            case ClassicGroupMetadata(value=value):
                check_phase(before, None if value is None else stored_phase(value))

    def _guard_single_owner(self, record: CurrentAssignment) -> None:
        """A partition never has two owners (rule 3.1)."""
        group = self.state.group
        if record.value is None or not isinstance(group, ConsumerGroup):
            return
        for partition in (*record.value.assigned, *record.value.pending_revocation):
            holder = group.holders.get(partition, record.member_id)
            if holder != record.member_id:
                raise InvariantError(
                    f"{partition} is held by {holder} and was granted to {record.member_id}"
                )
