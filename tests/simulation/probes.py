"""Probes: requests that the engine decides outside the run (invariants 4 and 7).

Nothing of them is applied to the group. Where one request follows another, they meet a fork of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from coordinator.engine import GroupEngine, Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    Request,
)
from coordinator.interface.records import (
    ClassicGroupMember,
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberState,
    Protocols,
)
from coordinator.interface.replies import JoinGroupReply, Reply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import ClassicPhase
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation import leader
from tests.simulation.invariants import Invariant, require

TOKEN = -1
FRESH_ID = UUID(int=1, version=4)


class Probe:
    """A copy of a group."""

    def __init__(self, state: GroupState, config: GroupConfig, topics: Topics, now_ms: int) -> None:
        self._engine = GroupEngine(state.group_id, config)
        self._engine.state = state.fork()
        self._topics, self._now_ms = topics, now_ms

    @property
    def group(self) -> ClassicGroup | ConsumerGroup | None:
        return self._engine.state.group

    def feed(self, event: Request) -> Reply:
        """Decide and apply a request. A parked request counts as refused."""
        step = self._engine.handle(event, now_ms=self._now_ms, topics=self._topics)
        for record in step.records:
            self._engine.apply(record)
        return _reply_of(step)


def _decide(
    state: GroupState, event: Request, config: GroupConfig, topics: Topics, now_ms: int
) -> tuple[Step, Reply]:
    """What a request would lead to. A decision changes nothing, so it needs no copy."""
    engine = GroupEngine(state.group_id, config)
    engine.state = state
    step = engine.handle(event, now_ms=now_ms, topics=topics)
    return step, _reply_of(step)


def _reply_of(step: Step) -> Reply:
    waits = JoinGroupReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    return dict(step.replies).get(TOKEN, waits)


def check_next_heartbeat(
    state: GroupState, member_id: str, config: GroupConfig, topics: Topics, now_ms: int
) -> None:
    """Invariant 4, for a classic member whose assignment changed: probe its next heartbeat."""
    group = state.group
    assert isinstance(group, ConsumerGroup)
    if not _must_be_quiet(group, member_id, topics):
        return
    heartbeat = HeartbeatReceived(
        token=TOKEN,
        member_id=member_id,
        instance_id=group.members[member_id].instance_id,
        generation=group.assignments[member_id].member_epoch,
    )
    _step, reply = _decide(state, heartbeat, config, topics, now_ms)
    if reply.error == ErrorCode.NONE:
        check_rejoin_changes_nothing(state, member_id, config, topics, now_ms)


def check_rejoin_changes_nothing(
    state: GroupState, member_id: str, config: GroupConfig, topics: Topics, now_ms: int
) -> None:
    """Invariant 4, for a member whose heartbeat was just answered with NONE.

    The invariant does not apply while a newer target is due, or after topics changed. A member that
    waits for partitions may also collect those that are already free (rule 5.7). A member that was
    converted at epoch 0 has its partitions since its next epoch then (DEV D68).
    """
    group = state.group
    assert isinstance(group, ConsumerGroup)
    if not _must_be_quiet(group, member_id, topics):
        return
    rejoined = _answer_to_rejoin(state, member_id, config, topics, now_ms)
    if rejoined is None:
        return
    reply, changes = rejoined
    current = group.assignments[member_id]
    # DEV D79: a member that would gain and lose nothing may be behind the target.
    may_be_behind = not config.unaffected_members_rejoin
    require(
        reply.error == ErrorCode.NONE
        and (may_be_behind or reply.generation == current.member_epoch)
        and not [
            record
            for record in changes
            if isinstance(record, GroupEpoch)
            or record.value is None
            or record.value.assigned.keys() != current.assigned.keys()
        ],
        Invariant.QUIET_REJOIN,
        member_id,
        "would receive",
        reply,
        "with",
        changes,
    )


def check_rejoin_changes_something(
    state: GroupState, member_id: str, config: GroupConfig, topics: Topics, now_ms: int
) -> None:
    """DEV D79, for a member whose heartbeat was just answered with REBALANCE_IN_PROGRESS. One that
    must revoke partitions has to rejoin anyway, and so has one to which a client-side assignor has
    something to say (rule 9.7)."""
    group = state.group
    assert isinstance(group, ConsumerGroup)
    current = group.assignments[member_id]
    if config.unaffected_members_rejoin or not _has_final_target(group, topics):
        return
    if current.state is MemberState.UNREVOKED_PARTITIONS or member_id in group.target_metadata:
        return
    rejoined = _answer_to_rejoin(state, member_id, config, topics, now_ms)
    if rejoined is not None and not rejoined[0].error:
        require(bool(rejoined[1]), Invariant.DISTURBED, member_id, "rejoins with", current)


def _answer_to_rejoin(
    state: GroupState, member_id: str, config: GroupConfig, topics: Topics, now_ms: int
) -> tuple[JoinGroupReply, list[CurrentAssignment | GroupEpoch]] | None:
    """The answer to a rejoin of a classic member that states what it owns, and what it changes
    apart from the member's epoch; None if its protocols are invalid, or the policy has changed."""
    group = state.group
    assert isinstance(group, ConsumerGroup)
    member, current = group.members[member_id], group.assignments[member_id]
    if member.classic is None:
        return None
    owned = [(name, n) for name, numbers in topics.names(current.assigned).items() for n in numbers]
    protocols = _owning(member.classic.protocols, owned, current.member_epoch)
    if protocols is None:
        return None
    step, reply = _decide(state, _join_again(member, protocols), config, topics, now_ms)
    if reply.error in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.INVALID_SESSION_TIMEOUT):
        return None
    assert isinstance(reply, JoinGroupReply)
    return reply, [
        record
        for record in step.records
        if isinstance(record, GroupEpoch)
        or (
            isinstance(record, CurrentAssignment)
            and (
                record.value is None
                or record.value.assigned.keys() != current.assigned.keys()
                or record.value.pending_revocation.keys() != current.pending_revocation.keys()
            )
        )
    ]


def _must_be_quiet(group: ConsumerGroup, member_id: str, topics: Topics) -> bool:
    """Whether a rejoin of the member must change nothing."""
    if not _has_final_target(group, topics):
        return False
    current = group.assignments[member_id]
    if current.state is MemberState.UNRELEASED_PARTITIONS:
        lacking = group.target_of(member_id) - current.assigned.keys()
        if not lacking <= group.holders.keys():
            return False
    return True


def _has_final_target(group: ConsumerGroup, topics: Topics) -> bool:
    """Whether no newer target is due, and no topic has changed since."""
    return group.epoch == group.assignment_epoch and group.metadata_hash == topics.metadata_hash(
        group.subscribers
    )


def _owning(
    protocols: Protocols, owned: Iterable[leader.Name], generation: int
) -> Protocols | None:
    """The protocols with these owned partitions; None if a subscription is malformed."""
    stated = []
    for name, metadata in protocols:
        try:
            version, subscription = leader.read_subscription(metadata)
        except WireError:
            return None
        stated.append(
            (
                name,
                leader.write_subscription(
                    replace(
                        subscription,
                        owned_partitions=leader.partitions_by_topic(owned),
                        generation_id=generation,
                    ),
                    version,
                ),
            )
        )
    return tuple(stated)


def _join_again(member: Member, protocols: Protocols) -> JoinGroupReceived:
    assert member.classic is not None
    return JoinGroupReceived(
        token=TOKEN,
        version=9,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=protocols,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        fresh_id=FRESH_ID,
    )


def check_there_and_back(
    state: GroupState, config: GroupConfig, topics: Topics, now_ms: int
) -> bool:
    """Invariant 7, for a classic group at rest: one static member returns as a native member, then
    as a classic one. False if the invariant does not apply to this group, for example because it
    would stay a consumer group until the end of a member's slot (rule 3.16)."""
    group = state.group
    if not isinstance(group, ClassicGroup) or state.member_slots:
        return False
    static = next((m for m in group.members.values() if m.instance_id is not None), None)
    policy = config.consumer_migration_policy
    if static is None or not (policy.allows_upgrade and policy.allows_downgrade):
        return False
    if len(group.members) > config.classic_max_size:
        # Static members stay in a generation that they did not join, so the group may exceed its
        # limit, as in Kafka. Such a group is not downgraded (rule 6.1).
        return False
    before = _assignments_at_rest(group, topics)
    if before is None:
        return False
    probe = Probe(state, config, topics, now_ms)
    reply = probe.feed(_as_native(static, group.core.protocol or ""))
    if reply.error:
        return False
    require(
        isinstance(probe.group, ConsumerGroup) and probe.group.epoch >= group.core.generation,
        Invariant.EPOCHS,
        "an upgrade begins an epoch before generation",
        group.core.generation,
    )
    reply = probe.feed(_as_classic(static))
    after = _assignments_at_rest(probe.group, topics)
    require(
        reply.error == ErrorCode.NONE and after == before,
        Invariant.THERE_AND_BACK,
        "from",
        before,
        "to",
        after,
        "with",
        reply,
    )
    return True


def _assignments_at_rest(
    group: ClassicGroup | ConsumerGroup | None, topics: Topics
) -> Mapping[str, frozenset[leader.Name]] | None:
    """The partitions of each member of a classic group, by instance id or else by member id.

    None if the group is not at rest: a member has not synced or must give up partitions, has
    partitions that it does not subscribe to or whose topic is gone (DEV D3), or some partitions
    have no owner. An upgrade would assign those (DEV D22).
    """
    if not isinstance(group, ClassicGroup) or group.phase is not ClassicPhase.STABLE:
        return None
    if group.unsynced or group.core.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    assignments: dict[str, frozenset[leader.Name]] = {}
    taken: set[leader.Name] = set()
    wanted: set[str] = set()
    for member in group.members.values():
        try:
            partitions = _assigned_names(member)
            _version, subscription = leader.read_subscription(
                member.metadata_for(group.core.protocol)
            )
        except WireError:
            return None
        owned = {
            (partition.topic, n)
            for partition in subscription.owned_partitions
            for n in partition.partitions
        }
        is_fine = (
            owned <= partitions
            and partitions.isdisjoint(taken)
            and {name for name, _ in partitions} <= topics.by_name.keys() & set(subscription.topics)
        )
        if not is_fine:
            return None
        taken |= partitions
        wanted |= set(subscription.topics)
        assignments[member.instance_id or member.member_id] = partitions
    everything = {
        (name, number)
        for name in wanted & topics.by_name.keys()
        for number in range(topics.by_name[name].partition_count)
    }
    return assignments if everything <= taken else None


def _assigned_names(member: ClassicGroupMember) -> frozenset[leader.Name]:
    _version, decoded = decode_assignment(member.assignment)
    return frozenset(
        (partition.topic, number)
        for partition in decoded.assigned_partitions
        for number in partition.partitions
    )


def _as_native(member: ClassicGroupMember, protocol: str) -> ConsumerHeartbeatReceived:
    _version, subscription = leader.read_subscription(member.metadata_for(protocol))
    return ConsumerHeartbeatReceived(
        token=TOKEN,
        version=1,
        member_id="probe",
        member_epoch=JOIN_EPOCH,
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.instance_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=subscription.topics,
        owned=frozenset(),
        fresh_id=FRESH_ID,
    )


def _as_classic(member: ClassicGroupMember) -> JoinGroupReceived:
    return JoinGroupReceived(
        token=TOKEN,
        version=9,
        member_id="",
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=member.protocols,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        fresh_id=FRESH_ID,
    )
