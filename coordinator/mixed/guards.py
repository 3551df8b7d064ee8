"""Checks shared by SyncGroup and Heartbeat of a classic member (rule 5.6 rows 3 to 6)."""

from coordinator.consumer.admission import check_instance
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.records import Member
from kafka_codecs.error_codes import ErrorCode


def classic_member(
    step: StepBuilder, member_id: str, instance_id: str | None, generation: int
) -> Member:
    """The classic member that sent the request. Raises GroupError UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    group = step.consumer
    if instance_id is not None:
        check_instance(group, instance_id, member_id)
    member = group.members.get(member_id)
    if member is None or not member.is_classic:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a classic member of the group"
        )
    epoch = group.assignments[member_id].member_epoch
    if generation != epoch:
        raise GroupError(
            ErrorCode.ILLEGAL_GENERATION, f"generation {generation} is not the member's, {epoch}"
        )
    return member
