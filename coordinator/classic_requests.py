"""The four classic requests: which kind of group they meet (rules 2.2 to 2.8, 5.1)."""

from coordinator.consumer.group import ConsumerGroup
from coordinator.conversion.replacement import remove_empty_consumer_group
from coordinator.draft import Draft
from coordinator.errors import ErrorCode, GroupError
from coordinator.events import (
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    SyncGroupReceived,
)
from coordinator.generic.group import GenericGroup
from coordinator.generic.heartbeat import heartbeat as generic_heartbeat
from coordinator.generic.join import check_session_timeout
from coordinator.generic.join import join as generic_join
from coordinator.generic.leave import leave as generic_leave
from coordinator.generic.sync import sync as generic_sync
from coordinator.mixed.heartbeat import heartbeat as mixed_heartbeat
from coordinator.mixed.join import join as mixed_join
from coordinator.mixed.leave import leave as mixed_leave
from coordinator.mixed.sync import sync as mixed_sync
from coordinator.replies import LeaveGroupReply, LeftMember

# From SyncGroup v5 on the protocol must be named, though the wire allows null.
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


def join(draft: Draft, event: JoinGroupReceived) -> None:
    """JoinGroup; an empty consumer group gives way to a generic one (rule 6.6)."""
    check_session_timeout(draft, event)
    if isinstance(draft.state.group, ConsumerGroup):
        if draft.consumer.members:
            mixed_join(draft, event)
            return
        remove_empty_consumer_group(draft)
    generic_join(draft, event)


def sync(draft: Draft, event: SyncGroupReceived) -> None:
    """SyncGroup."""
    names_protocol = event.protocol_type is not None and event.protocol_name is not None
    if event.version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and not names_protocol:
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "SyncGroup v5 must name type and protocol"
        )
    match draft.state.group:
        case GenericGroup():
            generic_sync(draft, event)
        case ConsumerGroup():
            mixed_sync(draft, event)
        case None:
            raise _no_members()


def heartbeat(draft: Draft, event: HeartbeatReceived) -> None:
    """Heartbeat."""
    match draft.state.group:
        case GenericGroup():
            generic_heartbeat(draft, event)
        case ConsumerGroup():
            mixed_heartbeat(draft, event)
        case None:
            raise _no_members()


def leave(draft: Draft, event: LeaveGroupReceived) -> None:
    """LeaveGroup; without a group every entry is unknown."""
    match draft.state.group:
        case GenericGroup():
            generic_leave(draft, event)
        case ConsumerGroup():
            mixed_leave(draft, event)
        case None:
            unknown = tuple(
                LeftMember(
                    member_id=leaver.member_id,
                    instance_id=leaver.instance_id,
                    error=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for leaver in event.members
            )
            draft.answer(event.token, LeaveGroupReply(members=unknown))


def _no_members() -> GroupError:
    return GroupError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no members")
