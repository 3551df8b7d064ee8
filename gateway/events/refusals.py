"""Reports classic members that a consumer group refused to admit.

A JoinGroup response cannot carry the reason, so this module takes it from the engine's reply. For
native members, and for refusals by the cluster, see `gateway/observers/clients_seen.py`.
"""

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.events import Event, JoinGroupReceived
from gateway.events.group_events import ConversionRefused
from kafka_codecs.error_codes import ErrorCode


def refused_conversion(state: GroupState, event: Event, step: Step) -> ConversionRefused | None:
    """The event for a JoinGroup that a consumer group refused; None for every other step."""
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
