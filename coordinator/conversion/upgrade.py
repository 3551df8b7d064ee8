"""Generic to consumer: the first native member converts the group while it runs (spec section 4).

Everything is validated before a waiting request is released (DEV, spec 11.2 row 1): a refused
upgrade disturbs nobody.
"""

from dataclasses import dataclass

from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.validation import JOIN_EPOCH
from coordinator.conversion.embedded import read_stored_assignment, read_subscription
from coordinator.draft import Draft
from coordinator.errors import ErrorCode, GroupError
from coordinator.events import ConsumerHeartbeatReceived
from coordinator.generic.group import GenericGroup
from coordinator.generic.protocols import selected, supported_by_all
from coordinator.generic.rebalance import release_join, release_sync
from coordinator.mixed.phases import PhaseEvent, move_phase
from coordinator.records import (
    Assignment,
    ClassicMetadata,
    CurrentAssignment,
    EpochCause,
    GenericGroupMetadata,
    GenericMember,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.topics import Partition, Topics
from coordinator.volatile import DeadlineCleared, DeadlineKind, GenericPhase

CONSUMER_PROTOCOL_TYPE = "consumer"

GENERIC_ONLY_DEADLINES = frozenset(
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


def enter_consumer_group(draft: Draft, event: ConsumerHeartbeatReceived) -> bool:
    """Make sure that the heartbeat meets a consumer group, or none (which it then creates).

    True if that interrupted a rebalance: somebody came or went, and the group needs a new target
    even if the joiner changes nothing. (DEV: Kafka forgets that, and partitions of a member that
    left stay unassigned when a static one comes back native.)

    Raises GroupError GROUP_ID_NOT_FOUND with the reason (spec 3.3 rule 1 and 4.1).
    """
    group = draft.state.group
    if isinstance(group, ConsumerGroup):
        return False
    if event.member_epoch != JOIN_EPOCH:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"{draft.state.group_id} is not a consumer group"
        )
    if group is None:
        return False
    if not group.members:
        remove_generic_group(draft)
        return False
    is_rebalancing = group.phase is not GenericPhase.STABLE
    _upgrade(draft, group)
    return is_rebalancing


def _upgrade(draft: Draft, group: GenericGroup) -> None:
    _check_allowed(draft, group)
    protocol = _protocol_in_force(group)
    generation = group.core.generation
    converted = _convert_members(group, protocol, draft.topics)
    told_to_rejoin = [id_ for id_ in group.members if id_ in group.joins or id_ in group.syncs]
    for member_id in told_to_rejoin:
        release_join(draft, member_id, ErrorCode.REBALANCE_IN_PROGRESS, echo_id=member_id)
        release_sync(draft, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    remove_generic_group(draft)
    for each in converted:
        draft.emit(MemberMetadata(member_id=each.member.member_id, value=each.member))
    metadata_hash = draft.topics.metadata_hash(draft.consumer.subscribers)
    draft.emit(
        GroupEpoch(epoch=generation, metadata_hash=metadata_hash, cause=EpochCause.CONVERTED)
    )
    for each in converted:
        draft.emit(
            TargetAssignmentMember(
                member_id=each.member.member_id, partitions=frozenset(each.current.held)
            )
        )
    draft.emit(TargetAssignmentMetadata(epoch=generation))
    for each in converted:
        member_id, classic = each.member.member_id, each.member.classic
        assert classic is not None
        draft.emit(CurrentAssignment(member_id=member_id, value=each.current))
        draft.arm(DeadlineKind.SESSION, member_id, classic.session_timeout_ms)
        if each.current.state is MemberState.UNREVOKED_PARTITIONS:
            draft.arm(DeadlineKind.REVOCATION, member_id, each.member.rebalance_timeout_ms)
    for member_id in told_to_rejoin:
        move_phase(draft, member_id, PhaseEvent.TOLD_TO_REJOIN)


def _protocol_in_force(group: GenericGroup) -> str:
    """The selected protocol; the one that would win now if there is none yet (DEV, spec 11.2
    row 2), or if a member that waits to rejoin no longer offers it."""
    lists = [member.protocols for member in group.members.values()]
    protocol = group.core.protocol
    return protocol if protocol in supported_by_all(lists) else selected(lists)


def _check_allowed(draft: Draft, group: GenericGroup) -> None:
    config = draft.config
    refusals = (
        (
            not config.consumer_migration_policy.allows_upgrade,
            f"the migration policy {config.consumer_migration_policy} does not allow a group with"
            " members to become a consumer group",
        ),
        (
            group.core.protocol_type != CONSUMER_PROTOCOL_TYPE,
            f"the group uses the protocol type {group.core.protocol_type!r}, not"
            " the embedded consumer protocol",
        ),
        (
            len(group.members) > config.consumer_max_size,
            f"the group's {len(group.members)} members exceed the maximum size of a consumer"
            f" group, {config.consumer_max_size}",
        ),
    )
    for is_refused, why in refusals:
        if is_refused:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, why)


def _convert_members(group: GenericGroup, protocol: str, topics: Topics) -> list[_Converted]:
    """Decode what the generic group kept as opaque bytes (spec 4.2 step 3).

    DEV (spec 11.2 row 3): if a client's assignor gave a partition twice, the first claimant
    keeps it. A member that lagged when the group was downgraded, and has not rejoined since, goes
    on from where it was then (row 8).
    """
    held_at_downgrade = group.core.held_at_downgrade or {}
    lagging = {id_: held for id_, held in held_at_downgrade.items() if id_ in group.members}
    taken = {partition for current in lagging.values() for partition in current.held}
    converted = []
    for member in group.members.values():
        _version, subscription = read_subscription(
            member.metadata_for(protocol), refuse_with=ErrorCode.GROUP_ID_NOT_FOUND
        )
        claimed = read_stored_assignment(member.assignment, topics, protocol=protocol)
        converted.append(
            _Converted(
                member=_consumer_member(member, subscription.topics, subscription.rack_id),
                current=lagging.get(member.member_id)
                or _settled(claimed - taken, group.core.generation),
            )
        )
        taken |= claimed
    return converted


def _consumer_member(member: GenericMember, topics: tuple[str, ...], rack_id: str | None) -> Member:
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


def _settled(partitions: frozenset[Partition], generation: int) -> Assignment:
    return Assignment(
        member_epoch=generation,
        previous_epoch=generation,
        assigned=dict.fromkeys(partitions, generation),
    )


def remove_generic_group(draft: Draft) -> None:
    """The generic group's record goes, and with it its timers and the ids it handed out."""
    for key in list(draft.state.deadlines):
        if key.kind in GENERIC_ONLY_DEADLINES:
            draft.emit(DeadlineCleared(key))
    draft.emit(GenericGroupMetadata(value=None))
