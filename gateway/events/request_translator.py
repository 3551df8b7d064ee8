"""Translates what requests say into events: the partitions that a member states to own, and the
refusal of a classic member by a consumer group.

The engine's records say what was granted; reports compare that with the statements. A JoinGroup
response cannot carry the reason of a refusal, so the event takes it from the engine's reply. For
native members, and for refusals by the cluster, see `gateway/observers/clients_seen.py`.
"""

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.events import ConsumerHeartbeatReceived, Event, JoinGroupReceived
from coordinator.interface.topics import Topics
from gateway.events.group_events import ConversionRefused
from gateway.events.member_events import PartitionsStated
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_subscription
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.errors import WireError

FIRST_VERSION_WITH_OWNED = 1
"""The first version of an embedded subscription that lists owned partitions."""


def statement(event: Event, step: Step, topics: Topics) -> PartitionsStated | None:
    """The partitions that a request states; None if it states none or was refused."""
    match event:
        case ConsumerHeartbeatReceived(owned=frozenset() as owned) if event.member_id:
            stated = PartitionsStated(
                member_id=event.member_id,
                member_epoch=event.member_epoch,
                partitions=topics.names(owned),
            )
        case JoinGroupReceived(member_id=str(member_id)) if member_id:
            embedded = _read_embedded(event)
            if embedded is None:
                return None
            stated = embedded
        case _:
            return None
    is_refused = any(token == event.token and reply.error for token, reply in step.replies)
    return None if is_refused else stated


def _read_embedded(event: JoinGroupReceived) -> PartitionsStated | None:
    """The statement of the first embedded subscription whose version can carry one."""
    if event.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    for _name, metadata in event.protocols:
        try:
            version, subscription = decode_subscription(metadata)
        except WireError:
            continue
        if version >= FIRST_VERSION_WITH_OWNED:
            return PartitionsStated(
                member_id=event.member_id,
                member_epoch=subscription.generation_id,
                partitions={
                    owned.topic: tuple(sorted(owned.partitions))
                    for owned in subscription.owned_partitions
                },
            )
    return None


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
                reason=reply.reason,
            )
    return None
