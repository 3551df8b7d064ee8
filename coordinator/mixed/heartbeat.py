"""Heartbeat on a consumer group: tells a classic member whether to rejoin (rule 5.7)."""

from coordinator.consumer.group_epoch import notice_changed_topics
from coordinator.consumer.phases import PhaseEvent, move_phase
from coordinator.consumer.reconcile import are_lacking_partitions_free, would_change
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import HeartbeatReceived
from coordinator.interface.records import MemberState
from coordinator.interface.replies import HeartbeatReply
from coordinator.interface.volatile_records import DeadlineKind
from coordinator.mixed.guards import classic_member
from kafka_codecs.error_codes import ErrorCode


def heartbeat(step: StepBuilder, event: HeartbeatReceived) -> None:
    """Decide a Heartbeat; the caller knows that the group is a consumer group."""
    member = classic_member(step, event.member_id, event.instance_id, event.generation)
    assert member.classic is not None
    step.arm(DeadlineKind.SESSION, member.member_id, member.classic.session_timeout_ms)
    notice_changed_topics(step)
    if _must_rejoin(step, member.member_id):
        move_phase(step, member.member_id, PhaseEvent.TOLD_TO_REJOIN)
        reply = HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    else:
        reply = HeartbeatReply()
    step.answer(event.token, reply)


def _must_rejoin(step: StepBuilder, member_id: str) -> bool:
    """Whether the target is newer, a revocation is pending, or all awaited partitions are free.

    DEV D79: a newer target is no reason if a rejoin changes nothing. An eager client gives up all
    its partitions whenever it rejoins.
    """
    group = step.consumer
    current = group.assignments[member_id]
    is_behind = current.member_epoch < group.assignment_epoch
    if is_behind and step.config.unaffected_members_rejoin:
        return True
    match current.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case _ if is_behind:
            return would_change(step, member_id) or member_id in group.target_metadata
        case MemberState.UNRELEASED_PARTITIONS:
            return are_lacking_partitions_free(step, member_id)
        case MemberState.STABLE:
            return False
