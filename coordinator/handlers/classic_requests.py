"""Dispatches the four classic requests by kind of group (rules 2.2 to 2.8, 5.1)."""

from coordinator.classic.heartbeat import heartbeat as classic_heartbeat
from coordinator.classic.join import join as classic_join
from coordinator.classic.leave import leave as classic_leave
from coordinator.classic.sync import sync as classic_sync
from coordinator.conversion.empty_group import remove_empty_consumer_group
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import SESSION_TIMEOUT_LIMITS
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    SyncGroupReceived,
)
from coordinator.interface.replies import LeaveGroupReply, LeftMember
from coordinator.mixed.heartbeat import heartbeat as mixed_heartbeat
from coordinator.mixed.join import join as mixed_join
from coordinator.mixed.leave import leave as mixed_leave
from coordinator.mixed.sync import sync as mixed_sync
from kafka_codecs.error_codes import ErrorCode

# SyncGroup v5 and later must name the protocol, although the wire format allows null.
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


def join(step: StepBuilder, event: JoinGroupReceived) -> None:
    """JoinGroup; an empty consumer group gives way to a classic one (rule 6.6)."""
    _check_session_timeout(step, event)
    epoch = 0
    if isinstance(step.state.group, ConsumerGroup):
        if step.consumer.members:
            mixed_join(step, event)
            return
        epoch = step.consumer.epoch
        remove_empty_consumer_group(step)
    classic_join(step, event, epoch_before=epoch)


def _check_session_timeout(step: StepBuilder, event: JoinGroupReceived) -> None:
    """Raises GroupError INVALID_SESSION_TIMEOUT outside the broker's bounds."""
    low = step.config.classic_min_session_timeout_ms
    high = step.config.classic_max_session_timeout_ms
    if not low <= event.session_timeout_ms <= high:
        limits = step.config.named_limits(*SESSION_TIMEOUT_LIMITS)
        raise GroupError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"the session timeout must be between {low} and {high} ms {limits}",
            member_id=event.member_id,
        )


def sync(step: StepBuilder, event: SyncGroupReceived) -> None:
    """SyncGroup."""
    names_protocol = event.protocol_type is not None and event.protocol_name is not None
    if event.version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and not names_protocol:
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "SyncGroup v5 must name type and protocol"
        )
    match step.state.group:
        case ClassicGroup():
            classic_sync(step, event)
        case ConsumerGroup():
            mixed_sync(step, event)
        case None:
            raise _no_members()


def heartbeat(step: StepBuilder, event: HeartbeatReceived) -> None:
    """Heartbeat."""
    match step.state.group:
        case ClassicGroup():
            classic_heartbeat(step, event)
        case ConsumerGroup():
            mixed_heartbeat(step, event)
        case None:
            raise _no_members()


def leave(step: StepBuilder, event: LeaveGroupReceived) -> None:
    """LeaveGroup; without a group every entry gets UNKNOWN_MEMBER_ID."""
    match step.state.group:
        case ClassicGroup():
            classic_leave(step, event)
        case ConsumerGroup():
            mixed_leave(step, event)
        case None:
            unknown = tuple(
                LeftMember(
                    member_id=leaver.member_id,
                    instance_id=leaver.instance_id,
                    error=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for leaver in event.members
            )
            step.answer(event.token, LeaveGroupReply(members=unknown))


def _no_members() -> GroupError:
    return GroupError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no members")
