"""When a native member has to send its next heartbeat (rule 3.17, DEV D78).

A member hears of a change only at its heartbeats, and a move takes several. In Kafka the interval
is always the group's. Here it is shorter while the group moves.
"""

from coordinator.group.consumer_group import ConsumerGroup, ConsumerGroupState
from coordinator.group.rolls import is_rolled
from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConsumerHeartbeatReceived

ANSWER_TIMES_PER_INTERVAL = 10
"""librdkafka gives a heartbeat up at the interval that it was told, so slow answers lengthen it."""


def has_short_interval(
    state: GroupState, group: ConsumerGroup, config: GroupConfig, *, now_ms: int
) -> bool:
    """Whether the short interval counts: the group is on its way to a target, waits for a
    replacement, or is being rolled. An operator's pause may be long."""
    is_longer = config.unsettled_heartbeat_interval_ms >= config.consumer_heartbeat_interval_ms
    if is_longer or config.roll_policy.is_paused:
        return False
    if state.places or group.state is not ConsumerGroupState.STABLE:
        return True
    return is_rolled(state, config, now_ms)


def next_interval_ms(step: StepBuilder, event: ConsumerHeartbeatReceived) -> int:
    """The interval for the answer to this heartbeat: never longer than the group's."""
    usual_ms = step.config.consumer_heartbeat_interval_ms
    if not has_short_interval(step.state, step.consumer, step.config, now_ms=step.now_ms):
        return usual_ms
    if ANSWER_TIMES_PER_INTERVAL * event.calls_within_ms > (
        step.config.unsettled_heartbeat_interval_ms
    ):
        # A heartbeat waits behind other calls on its connection, a commit for example. A client
        # that has given it up does not hear of a longer interval.
        return usual_ms
    answered_ms = ANSWER_TIMES_PER_INTERVAL * event.answers_within_ms
    return min(usual_ms, max(step.config.unsettled_heartbeat_interval_ms, answered_ms))
