"""When a native member has to send its next heartbeat (rule 3.17, DEV D78).

A member learns of a change only at its heartbeats, and a move takes several. In Kafka the interval
is always the group's. Here it is shorter while the group moves.
"""

from coordinator.group.consumer_group import ConsumerGroup, ConsumerGroupState
from coordinator.group.rolls import is_rolled
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig

ANSWER_TIMES_PER_INTERVAL = 10
"""librdkafka gives a heartbeat up at the interval that it was told, so slow answers lengthen it."""


def next_interval_ms(
    state: GroupState,
    group: ConsumerGroup,
    config: GroupConfig,
    *,
    calls_within_ms: int,
    answers_within_ms: int,
    now_ms: int,
) -> int:
    """The interval for the answer to this heartbeat: never longer than the group's.

    It is short while the group is on its way to a target, waits for a replacement, or is being
    rolled. An operator's pause may be long.
    """
    usual_ms = config.consumer_heartbeat_interval_ms
    short_ms = config.unsettled_heartbeat_interval_ms
    if short_ms >= usual_ms or config.roll_policy.is_paused:
        return usual_ms
    is_moving = state.member_slots or group.state is not ConsumerGroupState.STABLE
    if not (is_moving or is_rolled(state, config, now_ms)):
        return usual_ms
    if ANSWER_TIMES_PER_INTERVAL * calls_within_ms > short_ms:
        # A heartbeat waits behind other calls on its connection, a commit for example. A client
        # that has given it up does not learn of a longer interval.
        return usual_ms
    answered_ms = ANSWER_TIMES_PER_INTERVAL * answers_within_ms
    return min(usual_ms, max(short_ms, answered_ms))
