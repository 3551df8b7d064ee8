"""SyncGroup on a classic group (rule 2.6)."""

from dataclasses import replace

from coordinator.classic.durability import store_group
from coordinator.classic.guards import check_generation, is_at_older_epoch, known_member
from coordinator.classic.rebalance import release_sync, restart_session
from coordinator.classic.temporary_assignments import record_rejoined
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import SyncGroupReceived
from coordinator.interface.records import ClassicGroupMember
from coordinator.interface.replies import SyncGroupReply
from coordinator.interface.volatile_records import (
    ClassicPhase,
    DeadlineKind,
    SyncParked,
    SyncReceived,
    SyncReleased,
)
from kafka_codecs.error_codes import ErrorCode


def sync(step: StepBuilder, event: SyncGroupReceived) -> None:
    """Decide a SyncGroup; the caller knows that the group is classic."""
    group = step.classic
    member = known_member(group, event.member_id, event.instance_id)
    if is_at_older_epoch(group, event.member_id, event.generation):
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, "the group became a classic one")
    check_generation(group, event.generation)
    _check_protocol(group, event)
    match group.phase:
        case ClassicPhase.EMPTY:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, "the group is empty")
        case ClassicPhase.PREPARING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, "the members are joining again")
        case ClassicPhase.COMPLETING_REBALANCE:
            release_sync(step, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
            step.disarm(DeadlineKind.SESSION, member.member_id)
            step.emit(SyncParked(member.member_id, event.token))
            _record_synced(step, member.member_id)
            if member.member_id == group.core.leader:
                _distribute(step, event)
        case ClassicPhase.STABLE:
            _record_synced(step, member.member_id)
            record_rejoined(step, member.member_id)
            step.answer(event.token, _reply(group, member))


def _check_protocol(group: ClassicGroup, event: SyncGroupReceived) -> None:
    core = group.core
    if event.protocol_type not in (None, core.protocol_type) or event.protocol_name not in (
        None,
        core.protocol,
    ):
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the group uses {core.protocol_type}/{core.protocol}",
        )


def _record_synced(step: StepBuilder, member_id: str) -> None:
    if member_id in step.classic.unsynced:
        step.emit(SyncReceived(member_id))
    if not step.classic.unsynced:
        step.disarm(DeadlineKind.SYNC_PHASE)


def _distribute(step: StepBuilder, event: SyncGroupReceived) -> None:
    """Store the leader's assignment, make the group Stable, and answer all parked SyncGroups.

    Members that the leader omitted get zero bytes.
    """
    group = step.classic
    assignments = dict(event.assignments)
    members = tuple(
        replace(member, assignment=assignments.get(member.member_id, b""))
        for member in group.members.values()
    )
    store_group(step, replace(group.stored_value(), members=members))
    for member_id, token in list(group.syncs.items()):
        step.emit(SyncReleased(member_id))
        restart_session(step, group.members[member_id])
        step.answer(token, _reply(group, group.members[member_id]))


def _reply(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupReply:
    return SyncGroupReply(
        protocol_type=group.core.protocol_type,
        protocol_name=group.core.protocol,
        assignment=member.assignment,
    )
