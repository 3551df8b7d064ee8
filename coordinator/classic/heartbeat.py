"""Heartbeat on a classic group (rule 2.7)."""

from coordinator.classic.guards import check_generation, is_at_older_epoch, known_member
from coordinator.classic.rebalance import prepare_rebalance, restart_session
from coordinator.classic.subscriptions import notice_unwatched_change
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import HeartbeatReceived
from coordinator.interface.replies import HeartbeatReply
from coordinator.interface.volatile_records import ClassicPhase
from kafka_codecs.error_codes import ErrorCode


def heartbeat(step: StepBuilder, event: HeartbeatReceived) -> None:
    """Decide a Heartbeat; the caller knows that the group is classic."""
    group = step.classic
    member = known_member(group, event.member_id, event.instance_id)
    if not is_at_older_epoch(group, event.member_id, event.generation):
        check_generation(group, event.generation)
    restart_session(step, member)
    if group.phase is ClassicPhase.STABLE and notice_unwatched_change(step):
        prepare_rebalance(step)
    is_told = event.member_id in group.core.told_to_rejoin
    if group.phase is ClassicPhase.PREPARING_REBALANCE or is_told:
        reply = HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    else:
        reply = HeartbeatReply()
    step.answer(event.token, reply)
