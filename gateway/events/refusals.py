"""Tells which classic member a consumer group turned away.

Its answer carries no reason, so it is told where the engine gave one. A native member's answer
does: see `gateway/groups/clients_seen.py`, which also hears what the cluster refuses.
"""

from coordinator.consumer.group import ConsumerGroup
from coordinator.engine import Step
from coordinator.events import Event, JoinGroupReceived
from coordinator.state import GroupState
from gateway.events.group_events import ConversionRefused
from kafka_codecs.error_codes import ErrorCode


def refused_conversion(state: GroupState, event: Event, step: Step) -> ConversionRefused | None:
    """What a JoinGroup that was decided on `state` was refused for, if it was on the way back."""
    if not isinstance(event, JoinGroupReceived) or not isinstance(state.group, ConsumerGroup):
        return None
    for token, reply in step.replies:
        if token == event.token and reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return ConversionRefused(
                direction="consumer->classic",
                member_id=event.member_id,
                client_id=event.client_id,
                reason=reply.why,
            )
    return None
