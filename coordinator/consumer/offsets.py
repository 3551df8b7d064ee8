"""Offset commits and fetches of a consumer group: membership and epoch checks (rule 3.15)."""

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import OffsetCommitReceived, OffsetFetchReceived
from coordinator.interface.records import Assignment, Member
from kafka_codecs.error_codes import ErrorCode


def check_commit(step: StepBuilder, event: OffsetCommitReceived) -> None:
    """Raises GroupError UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH,
    ILLEGAL_GENERATION."""
    group = step.consumer
    if event.epoch < 0 and not group.members:
        return
    is_memberless = not event.member_id and event.instance_id is None
    if event.is_transactional and event.epoch == -1 and is_memberless:
        return
    member = group.members.get(event.member_id)
    if member is None:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{event.member_id!r} is not a member of the group"
        )
    if not (member.is_classic or event.is_transactional or event.knows_member_epochs):
        raise GroupError(
            ErrorCode.UNSUPPORTED_VERSION,
            "a member of the new protocol commits with OffsetCommit v9 or later",
        )
    current, knows_epochs = group.assignments[event.member_id], event.knows_member_epochs
    if member.instance_id is not None and event.instance_id not in (None, member.instance_id):
        # DEV D68: it is from before the member came back, perhaps in the same epoch.
        reason = f"the member is now the instance {member.instance_id}"
        raise _stale(member, reason, knows_epochs=knows_epochs)
    if not current.covers(event.epoch, event.partitions):
        raise _stale(member, _other_epoch(event.epoch, current), knows_epochs=knows_epochs)


def gone_topics(step: StepBuilder, event: OffsetCommitReceived) -> frozenset[str]:
    """The topics of a commit that were deleted, even if they were recreated under the same names.

    DEV D35: a member that still holds partitions of a deleted topic commits under its name. In
    Kafka that commit counts for the recreated topic, whose first records are then never read.
    """
    current = step.consumer.assignments.get(event.member_id)
    topics = step.topics
    held = {partition.topic_id for partition in current.held_partitions} if current else set()
    if held <= topics.by_id.keys():
        return frozenset()
    held_topics = {topics.by_id[topic_id].name for topic_id in held & topics.by_id.keys()}
    return event.topic_names - held_topics


def check_fetch(step: StepBuilder, event: OffsetFetchReceived) -> None:
    """Raises GroupError UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.

    DEV D28: a classic member may send its member id without an epoch, as @platformatic/kafka does;
    Kafka answers ILLEGAL_GENERATION. Up to v8 a fetch has no member id and is not checked.

    DEV D80: an older epoch suffices as for a commit. No other member can have committed a partition
    that the member has held since then, so the offset is as good as at the member's own epoch.
    """
    group = step.consumer
    if event.member_id is None and event.epoch < 0:
        return
    member = group.members.get(event.member_id or "")
    if member is None:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{event.member_id!r} is not a member of the group"
        )
    if member.is_classic and event.epoch < 0:
        return
    current = group.assignments[member.member_id]
    if not current.covers(event.epoch, event.partitions):
        raise _stale(member, _other_epoch(event.epoch, current), knows_epochs=True)


def _other_epoch(epoch: int, current: Assignment) -> str:
    return f"epoch {epoch} is not the member's, {current.member_epoch}"


def _stale(member: Member, reason: str, *, knows_epochs: bool) -> GroupError:
    code = (
        ErrorCode.STALE_MEMBER_EPOCH
        if knows_epochs and not member.is_classic
        else ErrorCode.ILLEGAL_GENERATION
    )
    return GroupError(code, reason)
