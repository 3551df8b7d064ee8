"""Names the invariants, and checks those that a single state of a group can show (rule 12.1).

The tests' `GroupScript` runs these checks after every step. `watch.py` has the checks that need
more than one state.
"""

from collections import Counter
from collections.abc import Iterable, Set
from enum import StrEnum
from itertools import chain
from typing import NamedTuple, TypeVar

from coordinator.copy_on_write.table import CountTable
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.client_assignors import offers_of
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState, Record
from coordinator.group.target_loads import Loads
from coordinator.group.target_owners import Owners
from coordinator.interface.events import STATIC_LEAVE_EPOCH
from coordinator.interface.records import (
    ClassicGenerationBegun,
    ClassicGroupMetadata,
    ClassicMemberRemoval,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    RegularExpression,
    TargetAssignmentMember,
)
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ClassicGroupMemberDropped,
    ClassicGroupMemberPut,
    ClassicPhase,
    CommitEnded,
    CommitStarted,
    DeadlineCleared,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    MemberPhase,
)

K = TypeVar("K")

_OF_CLASSIC_MEMBERS = (
    *(ClassicCoreMoved, ClassicGroupMemberPut, ClassicGroupMemberDropped),
    *(ClassicGroupMetadata, ClassicMemberRemoval, ClassicGenerationBegun),
)
"""Records that change members of a classic group, or their protocol."""


class Invariant(StrEnum):
    """The invariants. The first ten are numbered as in rule 12.1."""

    SINGLE_HOLDER = "1: no two members hold the same partition"
    EPOCHS = "2: epochs are ordered and never decrease"
    CLASSIC_REPLIES = "3: answers match the member's epoch and assignment"
    QUIET_REJOIN = "4: after a heartbeat with NONE, a rejoin would change nothing"
    LIVENESS = "5: without faults, every member gets its share and every heartbeat succeeds"
    SILENCE = "6: a silent member is removed in time, and no other is"
    THERE_AND_BACK = "7: an upgrade and a downgrade preserve the assignments of static members"
    REPLAY = "8: the log restores the same group"
    POLICY = "9: under the policy disabled, no group becomes mixed"
    OFFSETS = "10: committed offsets survive and never go back"
    SINGLE_OWNER = "clients: no two clients own the same partition"
    GRANTED = "clients: the group holds a client's partitions for its member"
    HEARD = "clients: an answer omits only an assignment that the member knows"
    STALE_COMMIT = "clients: no client commits a partition that another holds"
    INSTANCES = "clients: a native client keeps its instance id while it lives"
    OLD_FETCH = "clients: an older epoch fetches what its member has held since, and nothing else"
    TAKEN = "engine: a group that another coordinator serves has no members"
    RACKS = "engine: a member has the rack of its client"
    TARGETS = "engine: the target covers every subscribed partition"
    BALANCED = "engine: targets are balanced within bounds, and spare whom they can"
    DISTURBED = "engine: no classic member rejoins for nothing"
    INTERVALS = "engine: targets and regular expressions follow their intervals"
    COMPUTED = "engine: only the chosen member installs a target, once, and it handles all versions"
    HELD = "engine: a group that is held or rests gets no more native members"
    PAUSED = "engine: a paused group keeps its target"
    LEFT = "engine: a slot ends if its leaver keeps its connection"
    HURRIED = "engine: no member is hurried whose connection is slow"
    ANSWERS = "engine: every request is answered once or parked"
    PURE = "engine: decisions change nothing"
    INDEXES = "engine: the tables of a group agree"
    TIMERS = "engine: exactly the timers that are needed run"
    NO_ERROR = "engine: no internal error occurs"
    LOGGED = "hosting: nothing takes effect before the log has it"
    BATCHED = "hosting: each decision follows from all earlier ones"
    ANCHORED = "hosting: an answer grants partitions only while the anchor holds the group"
    IN_FLIGHT = "hosting: no partition is granted or fetched while another commit may be stored"
    INTRUDER = "hosting: members are fenced soon after a consumer entered the group in the cluster"
    GIVEN_UP = "hosting: a group is given up only if a consumer was in it in the cluster"
    HIDDEN = "hosting: no client sees that the cluster refused the anchor"
    LEASE = "hosting: a gateway that has lost its log tells members nothing"
    MOVES = "hosting: no member is given up in a move while its client may own partitions"
    ENDS = "simulator: a run ends"


class BrokenInvariantError(AssertionError):
    """An invariant does not hold; `detail` has the evidence."""

    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant}\n{detail}")
        self.invariant, self.detail = invariant, detail


def require(condition: bool, invariant: Invariant, *detail: object) -> None:
    """Raises BrokenInvariantError unless the condition holds. Only then formats `detail`."""
    if not condition:
        raise BrokenInvariantError(invariant, " ".join(str(part) for part in detail))


def check_group(state: GroupState, *, time_ends_commits: bool = True) -> None:
    """Check invariants 1 and 2, the tables and the timers.

    `time_ends_commits`: the config sets a time after which the cluster no longer stores a commit.
    """
    match state.group:
        case ClassicGroup() as group:
            _check_classic_members(group)
            _check_classic_phase(group)
        case ConsumerGroup() as group:
            _require_rows_of_members(group, state.member_slots.keys())
            check_holders(group)
            check_targets(group)
            check_epochs(group)
            _check_member_tables(group)
            _check_statuses(group)
            _check_target_owners(group)
        case None:
            pass
    check_deadlines(state, time_ends_commits=time_ends_commits)


def check_changed_group(state: GroupState, records: Iterable[Record]) -> None:
    """Check only the tables that these records have changed, and no timers."""
    kinds = set(map(type, records))
    match state.group:
        case ClassicGroup() as group:
            if not kinds.isdisjoint(_OF_CLASSIC_MEMBERS):
                _check_classic_members(group)
            _check_classic_phase(group)
        case ConsumerGroup() as group:
            _require_rows_of_members(group, state.member_slots.keys())
            check_epochs(group)
            if CurrentAssignment in kinds:
                check_holders(group)
            if not kinds.isdisjoint((CurrentAssignment, TargetAssignmentMember, MemberMetadata)):
                _check_statuses(group)
            if not kinds.isdisjoint((TargetAssignmentMember, MemberMetadata)):
                _check_target_owners(group)
                check_targets(group)
            if not kinds.isdisjoint((MemberMetadata, RegularExpression)):
                _check_member_tables(group)
        case None:
            pass


def check_holders(group: ConsumerGroup) -> None:
    """Invariant 1: each partition has one holder, assigned or pending revocation."""
    held = [
        (partition, member_id)
        for member_id, current in group.assignments.items()
        for partition in chain(current.assigned, current.pending_revocation)
    ]
    held_by = dict(held)
    if len(held_by) != len(held):
        raise BrokenInvariantError(Invariant.SINGLE_HOLDER, _duplicates(p for p, _ in held))
    require(group.holders.copy() == held_by, Invariant.INDEXES, "holders:", group.holders)


def check_targets(group: ConsumerGroup) -> None:
    """Invariant 1: each partition has one target owner."""
    targeted = [partition for target in group.targets.values() for partition in target]
    if len(set(targeted)) != len(targeted):
        detail = f"in two targets: {_duplicates(targeted)}"
        raise BrokenInvariantError(Invariant.SINGLE_HOLDER, detail)


def check_epochs(group: ConsumerGroup) -> None:
    """Invariant 2, within one state."""
    require(
        group.assignment_epoch <= group.epoch,
        Invariant.EPOCHS,
        "assignment epoch",
        group.assignment_epoch,
        "exceeds group epoch",
        group.epoch,
    )
    ahead = [
        current
        for current in group.assignments.values()
        if current.member_epoch > group.assignment_epoch
    ]
    require(not ahead, Invariant.EPOCHS, ahead, "exceed assignment epoch", group.assignment_epoch)


def check_target(group: ConsumerGroup, topics: Topics) -> None:
    """An up-to-date target has an owner for each partition of a subscribed topic (rule 9)."""
    if group.assignment_epoch < group.epoch or group.topics_checked != topics.version:
        return
    targeted = {partition for target in group.targets.values() for partition in target}
    idle = [
        (topic.name, number)
        for topic in map(topics.by_name.get, group.subscribers)
        if topic is not None
        for number in range(topic.partition_count)
        if (topic.topic_id, number) not in targeted
    ]
    require(not idle, Invariant.TARGETS, "no target has", idle)


def _duplicates(values: Iterable[object]) -> str:
    return str([value for value, count in Counter(values).items() if count > 1])


def _check_classic_members(group: ClassicGroup) -> None:
    """The tables that follow from the members, and their protocol."""
    _check_instances(group)
    offers: Counter[str | None] = Counter(
        name for m in group.members.values() for name in dict(m.protocols)
    )
    is_offered_by_all = offers[group.core.protocol] == len(group.members)
    rules = {
        "offers are counted": _counts(group.offers) == offers,
        "all members offer the protocol": is_offered_by_all or not _is_distributed(group),
    }
    _require_all(rules)


def _is_distributed(group: ClassicGroup) -> bool:
    return group.phase in (ClassicPhase.STABLE, ClassicPhase.COMPLETING_REBALANCE)


def _check_classic_phase(group: ClassicGroup) -> None:
    phase = group.phase
    rules = {
        "only members have parked requests": (
            group.joins.keys() | group.syncs.keys() <= group.members.keys()
        ),
        "pending ids are not members": group.pending_ids.keys().isdisjoint(group.members),
        "the leader is a member": group.core.leader is None or group.core.leader in group.members,
        "only the join phase parks joins": (
            not group.joins or phase is ClassicPhase.PREPARING_REBALANCE
        ),
        "only the sync phase parks syncs": (
            not group.syncs or phase is ClassicPhase.COMPLETING_REBALANCE
        ),
        "an empty group has no members": phase is not ClassicPhase.EMPTY or not group.members,
        "a generation has members": not _is_distributed(group) or bool(group.members),
    }
    _require_all(rules)


def _require_rows_of_members(group: ConsumerGroup, left: Set[str]) -> None:
    rules = {
        "each member has an assignment": group.assignments.keys() == group.members.keys(),
        "only members and kept slots have targets": group.targets.keys()
        <= group.members.keys() | left,
        "who left a slot is no member": left.isdisjoint(group.members),
    }
    _require_all(rules)


def _check_member_tables(group: ConsumerGroup) -> None:
    """The tables that follow from the members and their regular expressions."""
    _check_instances(group)
    members = group.members.values()
    subscribed = chain(
        (name for member in members for name in member.topic_names),
        (name for resolved in group.regexes.values() for name in resolved.topics),
    )
    regexes = Counter(member.topic_regex for member in members if member.topic_regex)
    classic = {member.member_id: member.classic for member in members if member.classic}
    votes = Counter(member.server_assignor for member in members if member.server_assignor)
    offers = Counter(name for member in classic.values() for name in dict(member.protocols))
    rules = {
        "subscribers are counted": _counts(group.subscribers) == Counter(subscribed),
        "regular expressions are counted": _counts(group.regex_subscribers) == regexes,
        "each regular expression has a subscriber": group.regexes.keys() <= regexes.keys(),
        "exactly the classic members have a phase": group.phases.keys() == classic.keys(),
        "subscriptions are counted": _counts(group.subscriptions)
        == Counter(member.subscription for member in members),
        "votes for assignors are counted": _counts(group.assignor_votes) == votes,
        "offers are counted": _counts(group.classic_offers) == offers,
        "client-side offers are counted": _counts(group.offers)
        == Counter(offers_of(member) for member in members),
        "the bytes of metadata are counted": group.metadata_bytes
        == sum(len(assignor.metadata) for member in members for assignor in member.client_assignors)
        + sum(len(data) for member in classic.values() for _name, data in member.protocols),
        "native members are counted": group.native_count == len(members) - len(classic),
    }
    _require_all(rules)


def _check_statuses(group: ConsumerGroup) -> None:
    """Check the counts of members by status, and the loads of members in their targets; members
    are spared that are eager and have exactly theirs."""
    unaffected = (MemberState.STABLE, None)
    statuses = {
        member_id: unaffected
        if group.members[member_id].is_classic
        and current.state is not MemberState.UNREVOKED_PARTITIONS
        and current.assigned.keys() == group.target_of(member_id)
        and member_id not in group.target_metadata
        else (current.state, current.member_epoch)
        for member_id, current in group.assignments.items()
    }
    spared = {
        member_id
        for member_id, status in statuses.items()
        if status == unaffected and group.members[member_id].is_eager
    }
    rules = {
        "statuses are counted": _counts(group.statuses) == Counter(statuses.values()),
        "loads are indexed": _are_indexed(group, group.loads, group.members.keys() - spared),
        "spared members are indexed": _are_indexed(group, group.spared, spared),
    }
    _require_all(rules)


def _counts(table: CountTable[K]) -> dict[K, int]:
    return table.copy()


def _check_target_owners(group: ConsumerGroup) -> None:
    owners = Owners()
    for member_id, target in group.targets.items():
        owners.give(target, member_id)
    _require_all({"target owners are indexed": owners == group.target_owners})


def _are_indexed(group: ConsumerGroup, loads: Loads, member_ids: Set[str]) -> bool:
    by_load: dict[int, set[str]] = {}
    for member_id in member_ids:
        by_load.setdefault(len(group.target_of(member_id)), set()).add(member_id)
    return {*loads} == member_ids and all({*loads.at(n)} == ids for n, ids in by_load.items())


def _require_all(rules: dict[str, bool]) -> None:
    broken = [rule for rule, holds in rules.items() if not holds]
    require(not broken, Invariant.INDEXES, *broken)


def _check_instances(group: ClassicGroup | ConsumerGroup) -> None:
    expected = {
        member.instance_id: member_id
        for member_id, member in group.members.items()
        if member.instance_id is not None
    }
    require(group.instances.copy() == expected, Invariant.INDEXES, "instances:", group.instances)


class Timers(NamedTuple):
    """The deadlines that a group needs, and further ones that it may have."""

    required: Set[DeadlineKey]
    allowed: Set[DeadlineKey]


def check_deadlines(state: GroupState, *, time_ends_commits: bool = True) -> Timers:
    """Exactly the timers that the state requires are running. Returns those of the group."""
    required, allowed = timers = timers_of(state.group)
    running = state.deadlines.keys()
    commits = {
        DeadlineKey(DeadlineKind.LOST_COMMIT, str(token))
        for token, commit in state.commits.items()
        if commit.answer_lost and time_ends_commits
    }
    beside = commits | {DeadlineKey(DeadlineKind.GRACE, id_) for id_ in state.member_slots}
    superfluous = running - required - allowed - beside
    missing = (required | beside) - running
    if superfluous or missing:
        raise BrokenInvariantError(
            Invariant.TIMERS, f"superfluous: {sorted(superfluous)}, missing: {sorted(missing)}"
        )
    return timers


def check_changed_deadlines(
    state: GroupState, records: Iterable[Record], timers: Timers, *, time_ends_commits: bool
) -> None:
    """Check the deadlines after these records, which did not change the group that has these
    timers."""
    for record in records:
        match record:
            case DeadlineSet(key) | DeadlineCleared(key):
                is_required, is_allowed = key in timers.required, key in timers.allowed
            case CommitStarted(token) | CommitEnded(token):
                key = DeadlineKey(DeadlineKind.LOST_COMMIT, str(token))
                is_required = is_allowed = False
            case _:
                continue
        if key.kind is DeadlineKind.GRACE:
            is_required = key.owner in state.member_slots
        elif key.kind is DeadlineKind.LOST_COMMIT:
            commit = state.commits.get(int(key.owner))
            is_required = time_ends_commits and commit is not None and commit.answer_lost
        is_running = key in state.deadlines
        if is_running != is_required and not (is_running and is_allowed):
            is_wrong = "superfluous" if is_running else "missing"
            raise BrokenInvariantError(Invariant.TIMERS, f"{is_wrong}: {key}")


def timers_of(group: ClassicGroup | ConsumerGroup | None) -> Timers:
    """The timers that the group needs, independent of its surroundings."""
    match group:
        case ClassicGroup():
            return _timers_of_classic_group(group)
        case ConsumerGroup():
            return _timers_of_consumer_group(group)
        case None:
            return Timers(frozenset(), frozenset())


def _timers_of_classic_group(group: ClassicGroup) -> Timers:
    required = {DeadlineKey(DeadlineKind.PENDING_ID, id_) for id_ in group.pending_ids}
    allowed: set[DeadlineKey] = set()
    for member_id in group.members:
        if member_id not in group.joins and member_id not in group.syncs:
            required.add(DeadlineKey(DeadlineKind.SESSION, member_id))
        if member_id in group.joins and group.joins[member_id].is_new:
            required.add(DeadlineKey(DeadlineKind.NEW_MEMBER_JOIN, member_id))
    match group.phase:
        case ClassicPhase.PREPARING_REBALANCE if group.core.initial_delay:
            required.add(DeadlineKey(DeadlineKind.INITIAL_REBALANCE_DELAY))
        case ClassicPhase.PREPARING_REBALANCE:
            # It has expired if the phase waits only for a commit in flight.
            allowed.add(DeadlineKey(DeadlineKind.JOIN_PHASE))
        case ClassicPhase.COMPLETING_REBALANCE:
            required.add(DeadlineKey(DeadlineKind.SYNC_PHASE))
        case ClassicPhase.STABLE:
            if group.unsynced:
                allowed.add(DeadlineKey(DeadlineKind.SYNC_PHASE))
        case ClassicPhase.EMPTY:
            pass
    return Timers(required, allowed)


def _timers_of_consumer_group(group: ConsumerGroup) -> Timers:
    required = {DeadlineKey(DeadlineKind.SESSION, member_id) for member_id in group.members}
    allowed: set[DeadlineKey] = set()
    for member_id, phase in group.phases.items():
        if phase is MemberPhase.PREPARE_REBALANCE:
            required.add(DeadlineKey(DeadlineKind.JOIN, member_id))
        if phase is MemberPhase.COMPLETING_REBALANCE:
            required.add(DeadlineKey(DeadlineKind.SYNC, member_id))
    for member_id, current in group.assignments.items():
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            is_away = current.member_epoch == STATIC_LEAVE_EPOCH
            (allowed if is_away else required).add(DeadlineKey(DeadlineKind.REVOCATION, member_id))
        if current.state is MemberState.UNRELEASED_PARTITIONS:
            # A member that rejoined keeps its earlier revocation deadline.
            allowed.add(DeadlineKey(DeadlineKind.REVOCATION, member_id))
    if group.is_left_to_classic_members:
        # The first event after a restart arms it, if the group has something to do.
        allowed.add(DeadlineKey(DeadlineKind.TARGET_DUE))
    return Timers(required, allowed)
