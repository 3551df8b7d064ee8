"""Heartbeat on a generic group (rule 2.7)."""

from coordinator.draft import Draft
from coordinator.errors import ErrorCode
from coordinator.events import HeartbeatReceived
from coordinator.generic.guards import check_generation, is_laggard, known_member
from coordinator.generic.rebalance import prepare_rebalance, restart_session
from coordinator.generic.subscriptions import notice_unwatched_change
from coordinator.replies import HeartbeatReply
from coordinator.volatile import GenericPhase


def heartbeat(draft: Draft, event: HeartbeatReceived) -> None:
    """Decide a Heartbeat; the caller knows that the group is generic."""
    group = draft.generic
    member = known_member(group, event.member_id, event.instance_id)
    if not is_laggard(group, event.member_id, event.generation):
        check_generation(group, event.generation)
    restart_session(draft, member)
    if group.phase is GenericPhase.STABLE and notice_unwatched_change(draft):
        prepare_rebalance(draft)
    if group.phase is GenericPhase.PREPARING_REBALANCE:
        reply = HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    else:
        reply = HeartbeatReply()
    draft.answer(event.token, reply)
