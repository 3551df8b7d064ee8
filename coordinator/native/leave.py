"""A member leaves by ConsumerGroupHeartbeat: epoch -1, or -2 for a static member (rule 3.10)."""

from dataclasses import replace

from coordinator.consumer.admission import check_instance, is_away
from coordinator.conversion import fence
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import STATIC_LEAVE_EPOCH, ConsumerHeartbeatReceived
from coordinator.interface.records import CurrentAssignment, RemovalCause
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode

JOINED_AGAIN = "the member has joined again on a newer connection"
"""Why a leave on an older one is refused."""


def leave(step: StepBuilder, event: ConsumerHeartbeatReceived) -> None:
    """Decide a leave request. Raises GroupError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH."""
    group = step.state.group
    if not isinstance(group, ConsumerGroup):
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"{step.state.group_id} is not a consumer group"
        )
    if event.instance_id is not None:
        check_instance(group, event.instance_id, event.member_id)
    if event.member_id not in group.members:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{event.member_id!r} is not a member of the group"
        )
    grant = group.grants.get(event.member_id)
    if grant is not None and event.connection < grant.connection:
        # DEV D25: the request has waited on a connection that its client has given up, and joined
        # again since. The client does not read the answer.
        raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, JOINED_AGAIN)
    if event.member_epoch != STATIC_LEAVE_EPOCH:
        fence.leave(step, {event.member_id: RemovalCause.LEFT})
    elif not is_away(group, event.member_id):
        _leave_temporarily(step, event.member_id)
    step.answer(
        event.token,
        ConsumerHeartbeatReply(member_id=event.member_id, member_epoch=event.member_epoch),
    )


def _leave_temporarily(step: StepBuilder, member_id: str) -> None:
    """The static member keeps its partitions until it returns or its session expires."""
    current = step.consumer.assignments[member_id]
    away = replace(current, member_epoch=STATIC_LEAVE_EPOCH, pending_revocation={})
    step.emit(CurrentAssignment(member_id=member_id, value=away))
    step.disarm(DeadlineKind.REVOCATION, member_id)
