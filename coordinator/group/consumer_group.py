"""The state of a consumer group and how records change it.

Time and requests do not occur here. The rules are in `consumer/`.
"""

from collections.abc import Collection, Hashable, Sequence
from enum import StrEnum
from typing import Any, Self

from coordinator.copy_on_write.table import CountTable, Forkable, Table
from coordinator.group.client_assignors import AssignorOffers, offers_of
from coordinator.group.target_loads import Loads
from coordinator.group.target_owners import Owners
from coordinator.interface.events import STATIC_LEAVE_EPOCH
from coordinator.interface.records import (
    Assignment,
    AssignmentMetadata,
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    RegularExpression,
    ResolvedRegex,
    Subscription,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    protocol_names,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import (
    NEVER_CHECKED,
    ChosenMember,
    Computation,
    ComputationFailed,
    ComputationStarted,
    Grant,
    GrantMoved,
    MemberChosen,
    MemberPhase,
    MemberPhaseMoved,
    Repetition,
    RepetitionMoved,
    TopicsChecked,
)

ConsumerRecord = (
    GroupEpoch
    | MemberMetadata
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentAssignment
    | RegularExpression
    | MemberPhaseMoved
    | RepetitionMoved
    | GrantMoved
    | TopicsChecked
    | ComputationStarted
    | ComputationFailed
    | MemberChosen
)


MemberStatus = tuple[MemberState, int | None]

_AWAY: Sequence[MemberStatus] = [(state, STATIC_LEAVE_EPOCH) for state in MemberState]
"""How native members count that left temporarily."""

_UNAFFECTED: MemberStatus = (MemberState.STABLE, None)
"""The status of a classic member that has exactly its target and nothing to revoke, whatever its
epoch."""


class ConsumerGroupState(StrEnum):
    """The states of a consumer group, as Kafka names them in its views (rule 3.14)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(Forkable):
    """A group of KIP-848 (rule 3.1); *mixed* while some member carries classic metadata.

    Some fields are indexes over the others, so that no rule has to scan all members. `holders` maps
    a partition to the member that holds it, assigned or pending revocation; `target_owners` maps it
    to its target member; `loads` has the target size of each member, except for eager ones that
    have exactly their target, which are in `spared` (rule 9.4). Other fields count members:
    `subscriptions` by subscription, `regex_subscribers` by regular expression, `assignor_votes` by
    preferred assignor, `classic_offers` by the protocols that classic members offer, `offers` by
    the client-side assignors that members support (rule 9.7), whose metadata has `metadata_bytes`
    in all, `statuses` by state and member epoch, which is None for classic members that have
    exactly their target. `subscribers` counts, per topic, the members that subscribe by name and
    the regular expressions that match.
    """

    __slots__ = (
        "assignment_epoch",
        "assignment_error",
        "assignments",
        "assignor",
        "assignor_votes",
        "chosen",
        "classic_offers",
        "computation",
        "earlier_target_ms",
        "epoch",
        "grants",
        "holders",
        "instances",
        "loads",
        "members",
        "metadata_bytes",
        "metadata_hash",
        "offers",
        "phases",
        "regex_subscribers",
        "regexes",
        "repetitions",
        "retry_at_ms",
        "spared",
        "statuses",
        "subscribers",
        "subscriptions",
        "target_metadata",
        "target_owners",
        "target_timestamp_ms",
        "targets",
        "topics_checked",
        "tried",
    )

    def __init__(self) -> None:
        # A new group starts at 1, so that its first member gets epoch 2 (rule 3.5, Kafka 4.3).
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.target_timestamp_ms = 0
        self.earlier_target_ms = 0
        """The time of the target before that; a restart forgets it."""
        self.assignor: str | None = None
        self.computation: Computation | None = None
        """The target that is being computed outside the engine."""
        self.retry_at_ms = 0
        """The earliest time of the next computation, after one that failed."""
        self.chosen: ChosenMember | None = None
        """The member that was told to compute the target."""
        self.tried: tuple[str, ...] = ()
        """The members that have failed to compute this target, the latest last."""
        self.assignment_error = 0
        """What a client-side assignor gave instead of this target."""
        self.topics_checked = NEVER_CHECKED
        self.members: Table[str, Member] = Table()
        self.instances: Table[str, str] = Table()
        self.regexes: Table[str, ResolvedRegex] = Table()
        self.targets: Table[str, frozenset[Partition]] = Table()
        self.target_metadata: Table[str, AssignmentMetadata] = Table()
        self.assignments: Table[str, Assignment] = Table()
        self.phases: Table[str, MemberPhase] = Table()
        self.repetitions: Table[str, Repetition] = Table()
        self.grants: Table[str, Grant] = Table()
        self.holders: Table[Partition, str] = Table()
        self.target_owners = Owners()
        self.loads = Loads()
        self.spared = Loads()
        self.subscribers: CountTable[str] = CountTable()
        self.regex_subscribers: CountTable[str] = CountTable()
        self.subscriptions: CountTable[Subscription] = CountTable()
        self.assignor_votes: CountTable[str] = CountTable()
        self.classic_offers: CountTable[str] = CountTable()
        self.offers: CountTable[AssignorOffers] = CountTable()
        self.metadata_bytes = 0
        self.statuses: CountTable[MemberStatus] = CountTable()

    def fork(self) -> Self:
        """Copies eagerly what nearly every step uses."""
        twin = super().fork()
        twin.epoch, twin.assignment_epoch = self.epoch, self.assignment_epoch
        twin.topics_checked = self.topics_checked
        twin.members, twin.phases = self.members.fork(), self.phases.fork()
        twin.assignments, twin.statuses = self.assignments.fork(), self.statuses.fork()
        return twin

    @property
    def state(self) -> ConsumerGroupState:
        """The state, as Kafka computes it from epochs and members. A classic member that has its
        target is not waited for, however old its epoch is (rule 5.11)."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        settled = self.statuses.get((MemberState.STABLE, self.assignment_epoch), 0)
        if settled + self.statuses.get(_UNAFFECTED, 0) == len(self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_settled(self, member_id: str) -> bool:
        """Whether the member is Stable at the epoch of the target."""
        current = self.assignments.get(member_id)
        return (
            current is not None
            and current.state is MemberState.STABLE
            and current.member_epoch == self.assignment_epoch
        )

    def is_unaffected(self, member_id: str) -> bool:
        """Whether the member is a classic one that has exactly its target and nothing to revoke.
        Its epoch may be older than the target's."""
        return self._status(member_id) == _UNAFFECTED

    @property
    def has_native_members(self) -> bool:
        """Whether any member uses the new protocol."""
        return len(self.members) > len(self.phases)

    @property
    def native_count(self) -> int:
        """The number of members that use the new protocol. All others have a phase."""
        return len(self.members) - len(self.phases)

    @property
    def is_left_to_classic_members(self) -> bool:
        """Whether the group has classic members, and no native members except those that left
        temporarily with -2. No native heartbeat then advances the group (rules 3.6, 3.10)."""
        if not self.phases:
            return False
        native_count = self.native_count
        return not native_count or native_count == sum(
            [self.statuses.get(status, 0) for status in _AWAY]
        )

    def topics_of(self, member: Member | Subscription) -> Collection[str]:
        """The topics that a member subscribes to, by name or by regular expression. An unresolved
        expression matches nothing."""
        resolved = self.regexes.get(member.topic_regex)
        if resolved is None:
            return member.topic_names
        return resolved.topics.union(member.topic_names)

    def target_of(self, member_id: str) -> frozenset[Partition]:
        """The member's target; empty for a member that joined after the last computation."""
        return self.targets.get(member_id, frozenset())

    def apply(self, record: ConsumerRecord) -> None:  # noqa: PLR0912, PLR0915  # one case for each
        """Change the group as the record says."""
        match record:
            case GroupEpoch(epoch=epoch, metadata_hash=metadata_hash):
                if epoch is not None:
                    self.epoch, self.metadata_hash = epoch, metadata_hash
            case MemberMetadata(member_id=member_id, value=member):
                before, status = self.members.get(member_id), self._status(member_id)
                self._put_member(member_id, before, member)
                if before is None or member is None or before.classic != member.classic:
                    self._sort_in(member_id, self._update_status(member_id, status))
            case TargetAssignmentMetadata(epoch=epoch, timestamp_ms=at_ms, assignor=assignor):
                if epoch is not None:
                    self.earlier_target_ms = self.target_timestamp_ms
                    self.assignment_epoch, self.target_timestamp_ms = epoch, at_ms
                    self.assignor = assignor
                    self.computation, self.retry_at_ms = None, 0
                    self.chosen, self.tried, self.assignment_error = None, (), 0
            case TargetAssignmentMember(member_id=member_id):
                status = self._status(member_id)
                self._put_target(member_id, record.partitions, record.metadata)
                self.loads.drop(member_id)
                self.spared.drop(member_id)
                self._sort_in(member_id, self._update_status(member_id, status))
            case CurrentAssignment(member_id=member_id, value=assignment):
                status = self._status(member_id)
                self._put_assignment(member_id, assignment)
                now = self._update_status(member_id, status)
                if _UNAFFECTED in (status, now):
                    self._sort_in(member_id, now)
            case RegularExpression(regex=regex, value=resolved):
                self._put_regex(regex, resolved)
            case MemberPhaseMoved(member_id, phase):
                self.phases.put(member_id, phase)
            case RepetitionMoved(member_id, repetition):
                self._put_repetition(member_id, repetition)
            case GrantMoved(member_id, grant):
                self.grants.put(member_id, grant)
            case TopicsChecked(version):
                self.topics_checked = version
            case ComputationStarted(computation):
                self.computation = computation
            case ComputationFailed(retry_at_ms=retry_at_ms, error=error):
                self.computation, self.retry_at_ms = None, retry_at_ms
                self.assignment_error = error
                if self.chosen is not None:
                    failed_id, self.chosen = self.chosen.member_id, None
                    self._forget_try(failed_id)
                    if failed_id in self.members:
                        self.tried = (*self.tried, failed_id)
            case MemberChosen(chosen):
                self.chosen, self.computation = chosen, None

    def _put_member(self, member_id: str, before: Member | None, member: Member | None) -> None:
        self._recount(before, member)
        if before is not None:
            instance_id = before.instance_id
            if instance_id is not None and self.instances.get(instance_id) == member_id:
                self.instances.drop(instance_id)
        if member is None:
            self.members.drop(member_id)
            self._forget_try(member_id)
        else:
            self.members.put(member_id, member)
            if member.instance_id is not None:
                self.instances.put(member.instance_id, member_id)
        if member is None or not member.is_classic:
            self.phases.drop(member_id)
        elif member_id not in self.phases:
            self.phases.put(member_id, MemberPhase.STABLE)
        if member is None or member.is_classic:
            self.repetitions.drop(member_id)
            self.grants.drop(member_id)

    def _forget_try(self, member_id: str) -> None:
        if member_id in self.tried:
            self.tried = tuple(tried_id for tried_id in self.tried if tried_id != member_id)

    def _put_repetition(self, member_id: str, repetition: Repetition | None) -> None:
        if repetition is None:
            self.repetitions.drop(member_id)
        else:
            self.repetitions.put(member_id, repetition)

    def _recount(self, before: Member | None, after: Member | None) -> None:
        """Update the counts in which the member has changed."""
        self.metadata_bytes += _metadata_bytes(after) - _metadata_bytes(before)
        for name, was, now in zip(
            _COUNTED, _keys_to_count(before), _keys_to_count(after), strict=True
        ):
            if was != now:
                counts: CountTable[Any] = getattr(self, name)
                counts.remove(was)
                counts.add(now)

    def _put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        before = self.regexes.get(regex)
        if before is not None:
            self.subscribers.remove(before.topics)
        if resolved is None:
            self.regexes.drop(regex)
        else:
            self.regexes.put(regex, resolved)
            self.subscribers.add(resolved.topics)

    def _put_target(
        self,
        member_id: str,
        partitions: frozenset[Partition] | None,
        metadata: AssignmentMetadata | None,
    ) -> None:
        before, after = self.target_of(member_id), partitions or frozenset()
        self.target_owners.take(before - after, member_id)
        self.target_owners.give(after - before, member_id)
        if partitions is None:
            self.targets.drop(member_id)
        else:
            self.targets.put(member_id, partitions)
        if metadata is None:
            self.target_metadata.drop(member_id)
        else:
            self.target_metadata.put(member_id, metadata)

    def _put_assignment(self, member_id: str, assignment: Assignment | None) -> None:
        before = self.assignments.get(member_id)
        held_before = before.held_partitions.keys() if before is not None else frozenset()
        held_after = assignment.held_partitions.keys() if assignment is not None else frozenset()
        for partition in held_before - held_after:
            # On replay of a compacted log, the record of the next holder may come first.
            if self.holders.get(partition) == member_id:
                self.holders.drop(partition)
        for partition in held_after - held_before:
            self.holders.put(partition, member_id)
        if assignment is None:
            self.assignments.drop(member_id)
        else:
            self.assignments.put(member_id, assignment)

    def _status(self, member_id: str) -> MemberStatus | None:
        """How the member counts in `statuses`; None without a current assignment."""
        current, member = self.assignments.get(member_id), self.members.get(member_id)
        if current is None:
            return None
        if (
            member is not None
            and member.is_classic
            and current.state is not MemberState.UNREVOKED_PARTITIONS
            and current.assigned.keys() == self.target_of(member_id)
            and member_id not in self.target_metadata
        ):
            return _UNAFFECTED
        return current.state, current.member_epoch

    def _update_status(self, member_id: str, before: MemberStatus | None) -> MemberStatus | None:
        """Count the member by its present status, which is returned."""
        after = self._status(member_id)
        if after != before:
            self.statuses.remove([before] if before is not None else [])
            self.statuses.add([after] if after is not None else [])
        return after

    def _sort_in(self, member_id: str, status: MemberStatus | None) -> None:
        """Index the member's load, behind others of the same load if it is new there."""
        member = self.members.get(member_id)
        is_spared = status == _UNAFFECTED and member is not None and member.is_eager
        loads, others = (self.spared, self.loads) if is_spared else (self.loads, self.spared)
        others.drop(member_id)
        if member is None:
            loads.drop(member_id)
        elif loads.get(member_id) is None:
            loads.put(member_id, len(self.target_of(member_id)))


def _metadata_bytes(member: Member | None) -> int:
    """The size of what a client-side assignor may need of a member."""
    if member is None:
        return 0
    classic = member.classic.protocols if member.classic else ()
    return sum(len(assignor.metadata) for assignor in member.client_assignors) + sum(
        len(metadata) for _name, metadata in classic
    )


_COUNTED = (
    *("subscribers", "regex_subscribers", "subscriptions"),
    *("assignor_votes", "classic_offers", "offers"),
)
"""The tables that count members by what these describe."""


def _keys_to_count(member: Member | None) -> Sequence[tuple[Hashable, ...]]:
    """What each of these tables counts of a member."""
    if member is None:
        return ((),) * len(_COUNTED)
    return (
        member.topic_names,
        (member.topic_regex,) if member.topic_regex else (),
        (member.subscription,),
        (member.server_assignor,) if member.server_assignor else (),
        protocol_names(member.classic.protocols) if member.classic else (),
        (offers_of(member),),
    )
