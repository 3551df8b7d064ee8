"""SyncGroup on a generic group (rule 2.6)."""

from dataclasses import replace

from coordinator.draft import Draft
from coordinator.errors import ErrorCode, GroupError
from coordinator.events import SyncGroupReceived
from coordinator.generic.durability import store_group
from coordinator.generic.group import GenericGroup
from coordinator.generic.guards import check_generation, is_laggard, known_member
from coordinator.generic.rebalance import release_sync, restart_session
from coordinator.records import GenericMember
from coordinator.replies import SyncGroupReply
from coordinator.volatile import (
    DeadlineKind,
    GenericPhase,
    SyncParked,
    SyncReceived,
    SyncReleased,
)


def sync(draft: Draft, event: SyncGroupReceived) -> None:
    """Decide a SyncGroup; the caller knows that the group is generic."""
    group = draft.generic
    member = known_member(group, event.member_id, event.instance_id)
    if is_laggard(group, event.member_id, event.generation):
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, "the group became a generic one")
    check_generation(group, event.generation)
    _check_protocol(group, event)
    match group.phase:
        case GenericPhase.EMPTY:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, "the group is empty")
        case GenericPhase.PREPARING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, "the members are joining again")
        case GenericPhase.COMPLETING_REBALANCE:
            release_sync(draft, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
            draft.disarm(DeadlineKind.SESSION, member.member_id)
            draft.emit(SyncParked(member.member_id, event.token))
            _note_synced(draft, member.member_id)
            if member.member_id == group.core.leader:
                _distribute(draft, event)
        case GenericPhase.STABLE:
            _note_synced(draft, member.member_id)
            draft.answer(event.token, _reply(group, member))


def _check_protocol(group: GenericGroup, event: SyncGroupReceived) -> None:
    core = group.core
    if event.protocol_type not in (None, core.protocol_type) or event.protocol_name not in (
        None,
        core.protocol,
    ):
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the group uses {core.protocol_type}/{core.protocol}",
        )


def _note_synced(draft: Draft, member_id: str) -> None:
    if member_id in draft.generic.unsynced:
        draft.emit(SyncReceived(member_id))
    if not draft.generic.unsynced:
        draft.disarm(DeadlineKind.SYNC_PHASE)


def _distribute(draft: Draft, event: SyncGroupReceived) -> None:
    """The leader assigned: make it durable, the group is Stable, everybody who waits is told.

    Members that the leader omitted get zero bytes.
    """
    group = draft.generic
    assignments = dict(event.assignments)
    members = tuple(
        replace(member, assignment=assignments.get(member.member_id, b""))
        for member in group.members.values()
    )
    store_group(draft, replace(group.stored_value(), members=members))
    for member_id, token in list(group.syncs.items()):
        draft.emit(SyncReleased(member_id))
        restart_session(draft, group.members[member_id])
        draft.answer(token, _reply(group, group.members[member_id]))


def _reply(group: GenericGroup, member: GenericMember) -> SyncGroupReply:
    return SyncGroupReply(
        protocol_type=group.core.protocol_type,
        protocol_name=group.core.protocol,
        assignment=member.assignment,
    )
