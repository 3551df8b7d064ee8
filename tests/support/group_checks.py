"""What must hold of a group's state at any time, whatever was sent to it (spec 12.1).

`GroupScript` asks after every step, so that each scenario is a test of these rules as well.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain

from coordinator.config import GroupConfig
from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.validation import STATIC_LEAVE_EPOCH
from coordinator.engine import GroupEngine
from coordinator.generic.group import GenericGroup
from coordinator.records import DurableRecord, MemberState, is_tombstone
from coordinator.state import GroupState
from coordinator.volatile import DeadlineKey, DeadlineKind, GenericPhase, MemberPhase

REBALANCING = "in a rebalance"
"""A generic group between two distributions: what it is then, its log does not know."""

MEMBER_KINDS_IN_GENERIC_GROUP = (DeadlineKind.SESSION, DeadlineKind.NEW_MEMBER_JOIN)
GROUP_KINDS_IN_GENERIC_GROUP = (
    DeadlineKind.INITIAL_REBALANCE_DELAY,
    DeadlineKind.JOIN_PHASE,
    DeadlineKind.SYNC_PHASE,
)
MEMBER_KINDS_IN_CONSUMER_GROUP = (
    DeadlineKind.SESSION,
    DeadlineKind.JOIN,
    DeadlineKind.SYNC,
    DeadlineKind.REVOCATION,
)


def snapshot(state: GroupState) -> str:
    """Everything there is to know of a state, volatile parts included."""
    group = state.group
    fields = {name: getattr(group, name) for name in getattr(group, "__slots__", ())}
    others = (state.deadlines, state.commits, state.resolution, state.config_overrides)
    return repr((type(group), fields, *others))


def durable_state(state: GroupState) -> object:
    """What a group's log must bring back; `REBALANCING` where the log knows less than we do."""
    match state.group:
        case None:
            return None
        case GenericGroup() as group:
            is_at_rest = group.phase in (GenericPhase.EMPTY, GenericPhase.STABLE)
            return group.stored_value() if is_at_rest else REBALANCING
        case ConsumerGroup() as group:
            return {
                "epochs": (group.epoch, group.assignment_epoch),
                "target_timestamp_ms": group.target_timestamp_ms,
                "metadata_hash": group.metadata_hash,
                "assignor": group.assignor,
                "members": dict(group.members),
                "targets": dict(group.targets),
                "assignments": dict(group.assignments),
                "holders": dict(group.holders),
                "instances": dict(group.instances),
                "subscribers": dict(group.subscribers),
                "regexes": dict(group.regexes),
                "regex_subscribers": dict(group.regex_subscribers),
            }


def compacted(log: Iterable[DurableRecord]) -> list[DurableRecord]:
    """The newest record of each key, in the order of writing, tombstones cleaned up."""
    newest: dict[Hashable, DurableRecord] = {}
    for record in log:
        newest.pop(record.key, None)
        if not is_tombstone(record):
            newest[record.key] = record
    return list(newest.values())


def check_replay(
    log: list[DurableRecord], expected: object, *, config: GroupConfig, now_ms: int
) -> None:
    """The log, and what compaction leaves of it, bring the same group back (12.1 rule 8)."""
    for records in (log, compacted(log)):
        engine = GroupEngine("orders", config)
        engine.load(records, now_ms=now_ms)
        if expected == REBALANCING:
            assert isinstance(engine.state.group, GenericGroup)
        else:
            assert durable_state(engine.state) == expected
        check_group(engine.state)


def parked_tokens(state: GroupState) -> set[int]:
    """The requests that the group owes an answer."""
    if not isinstance(state.group, GenericGroup):
        return set()
    return {join.token for join in state.group.joins.values()} | set(state.group.syncs.values())


def check_group(state: GroupState) -> None:
    """Invariants 1 and 2, the indexes, and the timers that each kind of group may have."""
    check_deadlines(state)
    match state.group:
        case GenericGroup() as group:
            _check_generic_group(group)
        case ConsumerGroup() as group:
            _check_consumer_group(group)
        case None:
            pass


def _check_generic_group(group: GenericGroup) -> None:
    assert dict(group.instances) == {
        member.instance_id: member_id
        for member_id, member in group.members.items()
        if member.instance_id is not None
    }
    assert dict(group.offers) == Counter(
        name for member in group.members.values() for name in {name for name, _ in member.protocols}
    )
    assert group.joins.keys() <= group.members.keys()
    assert group.syncs.keys() <= group.members.keys()
    assert group.pending_ids.keys().isdisjoint(group.members)
    assert group.core.leader is None or group.core.leader in group.members
    if group.phase is not GenericPhase.PREPARING_REBALANCE:
        assert not group.joins
    if group.phase is not GenericPhase.COMPLETING_REBALANCE:
        assert not group.syncs
    if group.phase in (GenericPhase.STABLE, GenericPhase.COMPLETING_REBALANCE):
        assert group.members
        assert all(group.core.protocol in dict(m.protocols) for m in group.members.values())
    if group.phase is GenericPhase.EMPTY:
        assert not group.members


def _check_consumer_group(group: ConsumerGroup) -> None:
    held = [
        (partition, member_id)
        for member_id, current in group.assignments.items()
        for partition in chain(current.assigned, current.pending_revocation)
    ]
    owners = Counter(partition for partition, _ in held)
    assert not [p for p, count in owners.items() if count > 1], "a partition has two owners"
    assert dict(group.holders) == dict(held)
    targeted = Counter(p for target in group.targets.values() for p in target)
    assert not [p for p, count in targeted.items() if count > 1], "a partition is targeted twice"
    assert group.assignment_epoch <= group.epoch
    for current in group.assignments.values():
        assert current.member_epoch <= group.assignment_epoch
    assert group.assignments.keys() == group.members.keys()
    assert group.targets.keys() <= group.members.keys()
    assert dict(group.instances) == {
        member.instance_id: member_id
        for member_id, member in group.members.items()
        if member.instance_id is not None
    }
    assert dict(group.subscribers) == Counter(
        chain(
            (name for member in group.members.values() for name in member.topic_names),
            (name for resolved in group.regexes.values() for name in resolved.topics),
        )
    )
    assert dict(group.regex_subscribers) == Counter(
        member.topic_regex for member in group.members.values() if member.topic_regex
    )
    assert group.regexes.keys() <= group.regex_subscribers.keys(), "a regex that nobody uses"
    assert group.phases.keys() == {
        member_id for member_id, member in group.members.items() if member.is_classic
    }
    _check_target_indexes(group)
    _check_tallies(group)


def _check_target_indexes(group: ConsumerGroup) -> None:
    """`target_owners` and `loads` are the target, seen otherwise."""
    owners = {p: member_id for member_id, target in group.targets.items() for p in target}
    assert {p: group.target_owners[p] for p in owners} == owners
    assert set(group.target_owners.beyond({})) == owners.keys()
    assert len(group.loads) == len(group.members)
    for member_id in group.members:
        assert member_id in group.loads.at(len(group.target_of(member_id)))


def _check_tallies(group: ConsumerGroup) -> None:
    members = group.members.values()
    classic = [member.classic for member in members if member.classic is not None]
    assert dict(group.subscriptions) == Counter(member.subscription for member in members)
    assert dict(group.assignor_votes) == Counter(
        member.server_assignor for member in members if member.server_assignor
    )
    assert dict(group.classic_offers) == Counter(
        name for each in classic for name in {name for name, _ in each.protocols}
    )
    assert dict(group.standings) == Counter(
        (current.state, current.member_epoch) for current in group.assignments.values()
    )
    assert group.native_count == len(members) - len(classic)


def check_deadlines(state: GroupState) -> None:
    """Every timer has something to time, and everything that needs a timer has one."""
    running = set(state.deadlines)
    expected = {
        DeadlineKey(DeadlineKind.LOST_COMMIT, str(token))
        for token, commit in state.commits.items()
        if commit.answer_lost
    }
    match state.group:
        case GenericGroup() as group:
            expected |= _deadlines_of_generic_group(group, running)
        case ConsumerGroup() as group:
            expected |= _deadlines_of_consumer_group(group, running)
        case None:
            pass
    assert running == expected, f"too many {running - expected}, missing {expected - running}"


def _deadlines_of_generic_group(group: GenericGroup, running: set[DeadlineKey]) -> set[DeadlineKey]:
    expected = {DeadlineKey(DeadlineKind.PENDING_ID, id_) for id_ in group.pending_ids}
    for member_id in group.members:
        if member_id not in group.joins and member_id not in group.syncs:
            expected.add(DeadlineKey(DeadlineKind.SESSION, member_id))
        if member_id in group.joins and group.joins[member_id].is_new:
            expected.add(DeadlineKey(DeadlineKind.NEW_MEMBER_JOIN, member_id))
    match group.phase:
        case GenericPhase.PREPARING_REBALANCE if group.core.initial_delay:
            expected.add(DeadlineKey(DeadlineKind.INITIAL_REBALANCE_DELAY))
        case GenericPhase.PREPARING_REBALANCE:
            # Not while the completion waits for the cluster to answer a commit.
            expected |= running & {DeadlineKey(DeadlineKind.JOIN_PHASE)}
        case GenericPhase.COMPLETING_REBALANCE:
            expected.add(DeadlineKey(DeadlineKind.SYNC_PHASE))
        case GenericPhase.STABLE:
            if group.unsynced:
                expected |= running & {DeadlineKey(DeadlineKind.SYNC_PHASE)}
        case GenericPhase.EMPTY:
            pass
    return expected


def _deadlines_of_consumer_group(
    group: ConsumerGroup, running: set[DeadlineKey]
) -> set[DeadlineKey]:
    expected = {DeadlineKey(DeadlineKind.SESSION, member_id) for member_id in group.members}
    for member_id, phase in group.phases.items():
        if phase is MemberPhase.PREPARE_REBALANCE:
            expected.add(DeadlineKey(DeadlineKind.JOIN, member_id))
        if phase is MemberPhase.COMPLETING_REBALANCE:
            expected.add(DeadlineKey(DeadlineKind.SYNC, member_id))
    for member_id, current in group.assignments.items():
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            revocation = {DeadlineKey(DeadlineKind.REVOCATION, member_id)}
            is_away = current.member_epoch == STATIC_LEAVE_EPOCH
            expected |= running & revocation if is_away else revocation
    if group.epoch > group.assignment_epoch and not group.has_native_members:
        # Armed by the first event after a restart.
        expected |= running & {DeadlineKey(DeadlineKind.TARGET_DUE)}
    return expected
