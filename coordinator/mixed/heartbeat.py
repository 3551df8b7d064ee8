"""Heartbeat on a consumer group: the member hears whether it has to rejoin (rule 5.7)."""

from coordinator.consumer.epoch import notice_changed_topics
from coordinator.consumer.phases import PhaseEvent, move_phase
from coordinator.consumer.reconcile import waits_for_nobody
from coordinator.draft import Draft
from coordinator.errors import ErrorCode
from coordinator.events import HeartbeatReceived
from coordinator.mixed.guards import classic_member
from coordinator.records import MemberState
from coordinator.replies import HeartbeatReply
from coordinator.volatile import DeadlineKind


def heartbeat(draft: Draft, event: HeartbeatReceived) -> None:
    """Decide a Heartbeat; the caller knows that the group is a consumer group."""
    member = classic_member(draft, event.member_id, event.instance_id, event.generation)
    assert member.classic is not None
    draft.arm(DeadlineKind.SESSION, member.member_id, member.classic.session_timeout_ms)
    notice_changed_topics(draft)
    if _must_rejoin(draft, member.member_id):
        move_phase(draft, member.member_id, PhaseEvent.TOLD_TO_REJOIN)
        reply = HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    else:
        reply = HeartbeatReply()
    draft.answer(event.token, reply)


def _must_rejoin(draft: Draft, member_id: str) -> bool:
    """A newer target exists, or the member must revoke, or all that it waits for is free."""
    group = draft.consumer
    current = group.assignments[member_id]
    if current.member_epoch < group.assignment_epoch:
        return True
    match current.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS:
            return waits_for_nobody(draft, member_id)
        case MemberState.STABLE:
            return False
