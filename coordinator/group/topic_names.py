"""The topics that the image must contain for a decision, because rules map names to ids.

Undecodable bytes contribute no topic. The rules refuse them where they matter.
"""

from collections.abc import Iterable, Iterator

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    JoinGroupReceived,
    RegexesResolved,
    SyncGroupReceived,
)
from coordinator.interface.records import Protocols
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import decode_assignment, decode_subscription


def topics_of_group(state: GroupState) -> frozenset[str]:
    """The topics that a group's members subscribe to; in a classic group also those that they own
    or were assigned."""
    match state.group:
        case ConsumerGroup() as group:
            return frozenset(group.subscribers)
        case ClassicGroup() as group:
            members = group.members.values()
            return frozenset(
                name
                for member in members
                for name in (
                    *_topics_described(member.protocols),
                    *_topics_assigned([member.assignment]),
                )
            )
        case None:
            return frozenset()


def topics_of_request(event: Event) -> frozenset[str]:
    """The topics that a request, or a resolved regular expression, brings into its group."""
    match event:
        case JoinGroupReceived(protocols=protocols):
            return frozenset(_topics_described(protocols))
        case SyncGroupReceived(assignments=assignments):
            return frozenset(_topics_assigned(assignment for _, assignment in assignments))
        case ConsumerHeartbeatReceived(topic_names=names) if names:
            return frozenset(names)
        case RegexesResolved(topics=topics) if topics:
            return frozenset().union(*topics.values())
        case _:
            return frozenset()


def _topics_described(protocols: Protocols) -> Iterator[str]:
    for _name, metadata in protocols:
        try:
            _version, subscription = decode_subscription(metadata)
        except WireError:
            continue
        yield from subscription.topics
        # A member may own partitions of a topic that no member subscribes to any more.
        yield from (topic.topic for topic in subscription.owned_partitions)


def _topics_assigned(assignments: Iterable[bytes]) -> Iterator[str]:
    for assignment in assignments:
        try:
            _version, decoded = decode_assignment(assignment)
        except WireError:
            continue
        yield from (topic.topic for topic in decoded.assigned_partitions)
