"""Upgrades a classic group to a consumer group when its first native member joins (rule 4).

Everything is validated before any parked request is released (DEV D1), so a refused upgrade does
not disturb any member.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from coordinator.classic.durability import store_group
from coordinator.classic.protocols import select_protocol, supported_by_all
from coordinator.classic.rebalance import release_join, release_sync
from coordinator.consumer.admission import instance_of
from coordinator.consumer.member_slots import move_slot
from coordinator.consumer.phases import PhaseEvent, move_phase
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.client_assignors import CLASSIC_VERSION
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import (
    list_stored_assignment,
    owned_partitions,
    read_assignment,
    read_subscription,
)
from coordinator.group.rolls import record_change
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import CONSUMER_SIZE_LIMIT, GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import JOIN_EPOCH, ConsumerHeartbeatReceived
from coordinator.interface.records import (
    Assignment,
    AssignmentMetadata,
    ClassicGroupMember,
    ClassicGroupValue,
    ClassicMetadata,
    CurrentAssignment,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.roll_policy import check_rested
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import (
    ClassicPhase,
    ConversionsMoved,
    DeadlineCleared,
    DeadlineKind,
    TopicsChecked,
)
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    NO_GENERATION,
    Subscription,
)
from kafka_codecs.error_codes import ErrorCode

CLASSIC_ONLY_DEADLINES = frozenset(
    {
        DeadlineKind.PENDING_ID,
        DeadlineKind.NEW_MEMBER_JOIN,
        DeadlineKind.INITIAL_REBALANCE_DELAY,
        DeadlineKind.JOIN_PHASE,
        DeadlineKind.SYNC_PHASE,
    }
)


@dataclass(frozen=True, slots=True)
class _Converted:
    member: Member
    current: Assignment
    metadata: AssignmentMetadata | None


def enter_consumer_group(step: StepBuilder, event: ConsumerHeartbeatReceived) -> bool:
    """Convert a classic group, so that the heartbeat meets a consumer group or none. If there is
    none, the heartbeat creates it.

    Slots stay, with what their members were assigned as their targets (rule 3.16).

    Returns True if the conversion interrupted a rebalance or left partitions without an owner. The
    group then needs a new target even if the joiner changes nothing. (DEV D22: in Kafka, partitions
    of a member that left stay unassigned when a static member returns as a native one.)

    Raises GroupError GROUP_ID_NOT_FOUND with the reason (rules 3.3 row 1 and 4.1), or
    UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID for a client that still considers itself a member.
    """
    group = step.state.group
    if isinstance(group, ConsumerGroup):
        return False
    if event.member_epoch != JOIN_EPOCH:
        raise _no_longer_a_member(step, event)
    if group is None:
        return False
    if not group.members:
        _replace_empty_group(step, group.core.generation)
        return False
    return _upgrade(step, group, event)


def _replace_empty_group(step: StepBuilder, generation: int) -> None:
    """DEV D88: the epochs continue from the generation, so that a late request of an earlier member
    never states an epoch of a present one."""
    remove_classic_group(step)
    if generation > 0:
        step.emit(GroupEpoch(epoch=generation, cause=EpochCause.CONVERTED))


def _no_longer_a_member(step: StepBuilder, event: ConsumerHeartbeatReceived) -> GroupError:
    """DEV D49: the error that a consumer group sends to a removed member, so that it rejoins.

    The member's session expired while no other member was native, so the group has become classic
    or is gone. Kafka's GROUP_ID_NOT_FOUND would end the client. The policy decides about its
    rejoin. A classic client that took over the instance id keeps it.
    """
    group, instance_id = step.state.group, instance_of(step, event)
    holder_id = group.instances.get(instance_id or "") if group is not None else None
    if holder_id not in (None, event.member_id):
        return GroupError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"the instance id {instance_id} belongs to another member now",
        )
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"{event.member_id!r} is not a member of the group: rejoin"
    )


def _upgrade(step: StepBuilder, group: ClassicGroup, event: ConsumerHeartbeatReceived) -> bool:
    """Convert the group. True if members still had to join, sync or revoke, or if the leader left
    some partition unassigned, for example because its topic has grown since."""
    _check_allowed(step, group)
    check_rested(step.state.conversions, step.now_ms)
    left = {
        id_: slot.member
        for id_, slot in step.state.member_slots.items()
        if isinstance(slot.member, ClassicGroupMember)
    }
    protocol = protocol_in_force(group)
    keeps_user_data = _supports(event, protocol, step.config)
    converted = _convert_members(
        group, left, protocol, step.topics, keeps_user_data=keeps_user_data
    )
    told_to_rejoin = [id_ for id_ in group.members if id_ in group.joins or id_ in group.syncs]
    for member_id in told_to_rejoin:
        release_join(step, member_id, ErrorCode.REBALANCE_IN_PROGRESS, echo_id=member_id)
        release_sync(step, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    remove_classic_group(step)
    _write_consumer_group(step, group.core.generation, converted)
    step.emit(ConversionsMoved(replace(step.state.conversions, upgraded_ms=step.now_ms)))
    record_change(step)
    for member_id in told_to_rejoin:
        move_phase(step, member_id, PhaseEvent.TOLD_TO_REJOIN)
    return (
        group.phase is not ClassicPhase.STABLE
        or bool(group.unsynced)
        or any(member.current.state is not MemberState.STABLE for member in converted)
        or _has_idle_partitions(step)
    )


def _supports(event: ConsumerHeartbeatReceived, protocol: str, config: GroupConfig) -> bool:
    """Whether the joiner supports the assignor of the classic group, and reads the user data that
    it sends to its members (rule 9.7)."""
    return config.client_side_assignors and any(
        assignor.name == protocol and assignor.minimum_version == CLASSIC_VERSION
        for assignor in event.client_assignors or ()
    )


def _has_idle_partitions(step: StepBuilder) -> bool:
    group, topics = step.consumer, step.topics
    return any(
        any(group.target_owners.missing(topic_id, topics.by_id[topic_id].partition_count))
        for topic_id in topics.ids(group.subscribers)
    )


def _write_consumer_group(
    step: StepBuilder, generation: int, converted: Sequence[_Converted]
) -> None:
    """Write the batch of rule 4.2, in an order that is safe at any cut of the log (rule 8.2). Its
    target has no assignor and no timestamp, because no assignor computed it."""
    left = step.state.member_slots.keys()
    members = [member for member in converted if member.member.member_id not in left]
    for member in members:
        step.emit(MemberMetadata(member_id=member.member.member_id, value=member.member))
    names = frozenset(name for member in converted for name in member.member.topic_names)
    metadata_hash = step.topics.metadata_hash(names)
    step.emit(GroupEpoch(epoch=generation, metadata_hash=metadata_hash, cause=EpochCause.CONVERTED))
    for member in converted:
        step.emit(
            TargetAssignmentMember(
                member_id=member.member.member_id,
                partitions=frozenset(member.current.assigned),
                metadata=member.metadata,
            )
        )
    step.emit(TargetAssignmentMetadata(epoch=generation), TopicsChecked(step.topics.version))
    for member in converted:
        if (slot := step.state.member_slots.get(member.member.member_id)) is not None:
            move_slot(step, member.member, slot)
    for member in members:
        member_id, classic = member.member.member_id, member.member.classic
        assert classic is not None
        step.emit(CurrentAssignment(member_id=member_id, value=member.current))
        step.arm(DeadlineKind.SESSION, member_id, classic.session_timeout_ms)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS:
            step.arm(DeadlineKind.REVOCATION, member_id, member.member.rebalance_timeout_ms)


def protocol_in_force(group: ClassicGroup) -> str:
    """The selected protocol. If there is none yet (DEV D2), or if a member that waits to rejoin no
    longer offers it, the protocol that would be selected now."""
    lists = [member.protocols for member in group.members.values()]
    protocol = group.core.protocol
    return protocol if protocol in supported_by_all(lists) else select_protocol(lists)


def obstacles(group: ClassicGroupValue, config: GroupConfig) -> Iterator[str]:
    """Why the group cannot become a consumer group as it is, a phrase each; none if it can."""
    yield from group_obstacles(group.protocol_type, len(group.members), config)
    for member in group.members:
        if (obstacle := member_obstacle(member, group.protocol)) is not None:
            yield f"{member.member_id}: {obstacle}"


def member_obstacle(member: ClassicGroupMember, protocol: str | None) -> str | None:
    """Why a member of a classic group with this protocol cannot be converted; None if it can."""
    try:
        read_subscription(member.metadata_for(protocol), refuse_with=ErrorCode.GROUP_ID_NOT_FOUND)
        list_stored_assignment(member.assignment, protocol=protocol)
    except GroupError as error:
        return error.reason
    return None


def _check_allowed(step: StepBuilder, group: ClassicGroup) -> None:
    for reason in group_obstacles(group.core.protocol_type, len(group.members), step.config):
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, reason)


def group_obstacles(protocol_type: str | None, members: int, config: GroupConfig) -> Iterator[str]:
    """Why a classic group cannot become a consumer group, whatever its members support."""
    refusals = (
        (
            not config.consumer_migration_policy.allows_upgrade,
            f"the migration policy {config.consumer_migration_policy} does not allow a group with"
            " members to become a consumer group",
        ),
        (
            protocol_type != CONSUMER_PROTOCOL_TYPE,
            f"the group uses the protocol type {protocol_type!r}, not"
            " the embedded consumer protocol",
        ),
        (
            members > config.consumer_max_size,
            f"the group's {members} members exceed the maximum size of a consumer"
            f" group, {config.consumer_max_size} {config.named_limits(CONSUMER_SIZE_LIMIT)}",
        ),
    )
    return (reason for is_refused, reason in refusals if is_refused)


def _convert_members(
    group: ClassicGroup,
    left: Mapping[str, ClassicGroupMember],
    protocol: str,
    topics: Topics,
    *,
    keeps_user_data: bool,
) -> list[_Converted]:
    """Decode the opaque bytes of the classic group (rule 4.2). A member that left holds nothing,
    so it counts with what it was assigned, after all others."""
    members = {**group.members, **left}
    subscriptions = {
        member_id: read_subscription(
            member.metadata_for(protocol), refuse_with=ErrorCode.GROUP_ID_NOT_FOUND
        )[1]
        for member_id, member in members.items()
    }
    owned_topics = {
        member_id: read_assignment(member.assignment).assigned_partitions
        if keeps_user_data
        else list_stored_assignment(member.assignment, protocol=protocol)
        for member_id, member in members.items()
    }
    claims = {
        member_id: owned_partitions(listed, topics) for member_id, listed in owned_topics.items()
    }
    has_unknown_topics = {
        member_id
        for member_id, listed in owned_topics.items()
        if any(topic.partitions and topic.topic not in topics.by_name for topic in listed)
    }
    newest_first = sorted(
        subscriptions.items(),
        key=lambda claim: _generation_of_claim(claim[1], group.core.generation),
        reverse=True,
    )
    owned = {
        member_id: owned_partitions(subscription.owned_partitions, topics)
        for member_id, subscription in newest_first
        if member_id not in left
    }
    currents = _current_assignments(group, claims, owned, has_unknown_topics)
    return [
        _Converted(
            _consumer_member(member, subscriptions[id_].topics, subscriptions[id_].rack_id),
            currents[id_],
            _metadata_for(member) if keeps_user_data else None,
        )
        for id_, member in members.items()
    ]


def _metadata_for(member: ClassicGroupMember) -> AssignmentMetadata | None:
    user_data = read_assignment(member.assignment).user_data
    return AssignmentMetadata(version=CLASSIC_VERSION, metadata=user_data) if user_data else None


def _generation_of_claim(subscription: Subscription, generation: int) -> int:
    """The generation of a subscription. One that the group has not reached yet belongs to an
    earlier group of the same name and does not count."""
    stated = subscription.generation_id
    return stated if stated <= generation else NO_GENERATION


def _current_assignments(
    group: ClassicGroup,
    claims: Mapping[str, frozenset[Partition]],
    owned: Mapping[str, frozenset[Partition]],
    has_unknown_topics: Set[str],
) -> dict[str, Assignment]:
    """The partitions that each member holds: its assignment, at the group's generation.

    DEV D3, D8, D21; Kafka uses only the assignments:
    - If a client-side assignor assigned a partition twice, the first claimant keeps it. The other
      client uses it all the same, and partitions of topics that are unknown here
      (`has_unknown_topics`). No target tells such a member to rejoin, so it counts as one that must
      revoke (rule 5.7).
    - A member that lagged at the downgrade continues from where it was, or at its epoch, if no
      rebalance has completed since.
    - A cooperative member may still be revoking partitions that it owned at its join and was not
      assigned. A member whose assignment was discarded by an interrupted rebalance still owns it.
      Of two claims, `owned` has the one with the newer generation first.
    """
    held_at_downgrade = group.core.held_at_downgrade or {}
    currents = {id_: held for id_, held in held_at_downgrade.items() if id_ in group.members}
    others = [id_ for id_ in claims if id_ not in currents]
    taken = {partition for current in currents.values() for partition in current.held_partitions}

    def epoch_of(member_id: str) -> int:
        return group.core.older_epochs.get(member_id, group.core.generation)

    def take(member_id: str, wanted: frozenset[Partition]) -> dict[Partition, int]:
        partitions = wanted - taken
        taken.update(partitions)
        return dict.fromkeys(partitions, epoch_of(member_id))

    assigned = {id_: take(id_, claims[id_]) for id_ in others}
    owned_beyond = {id_: take(id_, owned[id_]) for id_ in owned if id_ not in currents}
    owned_beyond |= {id_: {} for id_ in claims if id_ not in owned}
    for id_ in others:
        was_wiped = id_ in owned and not group.members[id_].assignment
        has_yet_to_rejoin = id_ in has_unknown_topics or id_ in group.core.told_to_rejoin
        uses_more = has_yet_to_rejoin or not claims[id_] <= assigned[id_].keys()
        must_revoke = (bool(owned_beyond[id_]) and not was_wiped) or uses_more
        currents[id_] = Assignment(
            member_epoch=epoch_of(id_),
            previous_epoch=epoch_of(id_),
            state=MemberState.UNREVOKED_PARTITIONS if must_revoke else MemberState.STABLE,
            assigned=owned_beyond[id_] if was_wiped else assigned[id_],
            pending_revocation=owned_beyond[id_] if must_revoke else {},
        )
    return currents


def _consumer_member(
    member: ClassicGroupMember, topics: tuple[str, ...], rack_id: str | None
) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=tuple(sorted(set(topics))),
        classic=ClassicMetadata(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )


def remove_classic_group(step: StepBuilder) -> None:
    """Delete the classic group's record, its timers and its pending ids."""
    for key in list(step.state.deadlines):
        if key.kind in CLASSIC_ONLY_DEADLINES:
            step.emit(DeadlineCleared(key))
    store_group(step, None)
