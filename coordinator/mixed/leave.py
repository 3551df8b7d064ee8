"""LeaveGroup on a consumer group: removes all named members in one step (rule 5.8)."""

from coordinator.consumer.admission import check_instance
from coordinator.conversion import fence
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import LeaveGroupReceived, Leaver
from coordinator.interface.records import RemovalCause
from coordinator.interface.replies import LeaveGroupReply, LeftMember
from kafka_codecs.error_codes import ErrorCode


def leave(step: StepBuilder, event: LeaveGroupReceived) -> None:
    """Decide a LeaveGroup; the caller knows that the group is a consumer group."""
    leaving: dict[str, RemovalCause] = {}
    answers = []
    for leaver in event.members:
        error = ErrorCode.NONE
        try:
            member_id = _member_id_of(step, leaver)
            by_admin = not leaver.member_id
            leaving[member_id] = RemovalCause.REMOVED_BY_ADMIN if by_admin else RemovalCause.LEFT
        except GroupError as refusal:
            error = refusal.code
        answers.append(
            LeftMember(member_id=leaver.member_id, instance_id=leaver.instance_id, error=error)
        )
    if leaving and all(leaver.comes_back for leaver in event.members):
        fence.leave(step, leaving)
    elif leaving:
        fence.fence(step, leaving)
    step.answer(event.token, LeaveGroupReply(members=tuple(answers)))


def _member_id_of(step: StepBuilder, leaver: Leaver) -> str:
    """The member id of an entry. Raises GroupError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    group = step.consumer
    if leaver.instance_id is not None:
        member_id = leaver.member_id or group.instances.get(leaver.instance_id, "")
        check_instance(group, leaver.instance_id, member_id)
        return member_id
    if leaver.member_id not in group.members:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{leaver.member_id!r} is not a member of the group"
        )
    return leaver.member_id
