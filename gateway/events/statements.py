"""Reports the partitions that members state to own in their requests.

The engine's records say what was granted. The report compares the two.
"""

from coordinator.engine import Step
from coordinator.interface.events import ConsumerHeartbeatReceived, Event, JoinGroupReceived
from coordinator.interface.topics import Topics
from gateway.events.member_events import PartitionsStated
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_subscription
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
            found = _embedded(event)
            if found is None:
                return None
            stated = found
        case _:
            return None
    is_refused = any(token == event.token and reply.error for token, reply in step.replies)
    return None if is_refused else stated


def _embedded(event: JoinGroupReceived) -> PartitionsStated | None:
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
                    each.topic: tuple(sorted(each.partitions))
                    for each in subscription.owned_partitions
                },
            )
    return None
