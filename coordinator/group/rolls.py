"""Whether the members of a group are being restarted one by one to change their protocol.

Only then is what a leaving member had kept for its replacement, which is about to come (rules 3.16,
3.18). At any other time a leave costs what it costs in Kafka. A group that is merely mixed may stay
so for weeks.
"""

from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from coordinator.interface.records import Member
from coordinator.interface.volatile_records import DynamicMemberLeft, ProtocolChanged

ANNOUNCED_ROLL_PAUSE_MS_MAX = 3_600_000
"""How long a roll that an operator has announced lasts without a step."""


def is_rolled(state: GroupState, config: GroupConfig, now_ms: int) -> bool:
    """Whether a member has changed its protocol recently, or an operator has announced a roll."""
    changed_ms = state.protocol_changed_ms
    if changed_ms and now_ms - changed_ms < config.roll_pause_ms:
        return True
    if config.rolled_since_ms is None:
        return False
    returned_ms = state.last_return.at_ms if state.last_return is not None else 0
    last_ms = max(config.rolled_since_ms, changed_ms, returned_ms)
    return now_ms - last_ms < ANNOUNCED_ROLL_PAUSE_MS_MAX


def record_join(
    step: StepBuilder,
    event: JoinGroupReceived | ConsumerHeartbeatReceived,
    before: Member | None,
) -> None:
    """A member of a consumer group joins. `before` is the member that it was, or has replaced."""
    is_classic = isinstance(event, JoinGroupReceived)
    if before is not None:
        has_changed = before.is_classic != is_classic
    else:
        group = step.consumer
        is_first = is_classic and not group.phases and bool(group.members)
        has_changed = is_first or _returns_with_another_protocol(step, event)
    if has_changed:
        record_change(step)


def record_change(step: StepBuilder) -> None:
    """A member has changed its protocol."""
    step.emit(ProtocolChanged(step.now_ms))


def record_leave(step: StepBuilder, member: Member) -> None:
    """Remember a dynamic member that leaves, in case it comes back with another protocol."""
    if member.instance_id is None:
        left = DynamicMemberLeft(
            client_id=member.client_id,
            client_host=member.client_host,
            is_classic=member.is_classic,
            at_ms=step.now_ms,
        )
        step.emit(left)


def _returns_with_another_protocol(
    step: StepBuilder, event: JoinGroupReceived | ConsumerHeartbeatReceived
) -> bool:
    left = step.state.left_last
    return (
        left is not None
        and left.is_classic != isinstance(event, JoinGroupReceived)
        and left.client_id == event.client_id
        and (left.client_host == event.client_host or not step.config.replacement_needs_host)
        and step.now_ms - left.at_ms < step.config.roll_pause_ms
    )
