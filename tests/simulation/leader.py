"""The client-side assignors that the leader of a classic group runs.

`range` and `roundrobin` are for eager clients. `cooperative-sticky` leaves each partition with its
owner, and withholds a moving partition until its owner has given it up.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import cycle

from coordinator.interface.replies import JoinedMember
from coordinator.interface.topics import Topics
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

STICKY = "cooperative-sticky"
REMEMBERED_MAX = 1_024
"""Embedded messages that need not be encoded or decoded again: clients repeat themselves."""

Name = tuple[str, int]
"""A partition by topic name and number, as in the classic protocol."""


def assign(protocol: str, members: Iterable[JoinedMember], topics: Topics) -> dict[str, bytes]:
    """The encoded assignment of each member, for SyncGroup."""
    subscriptions = _subscriptions(members)
    match protocol:
        case "range":
            given = _range(subscriptions, topics)
        case "roundrobin":
            given = _round_robin(subscriptions, topics)
        case _:
            given = _sticky(subscriptions, topics)
    return {member_id: write_assignment(names) for member_id, names in given.items()}


def subscribed_topics(members: Iterable[JoinedMember]) -> list[str]:
    """The topics that any member subscribes to. The leader watches them."""
    return sorted(
        {name for subscription in _subscriptions(members).values() for name in subscription.topics}
    )


def _subscriptions(members: Iterable[JoinedMember]) -> dict[str, Subscription]:
    """A member with an unreadable subscription gets no partitions. In Java it ends the leader."""
    subscriptions = {}
    for member in members:
        try:
            _version, subscription = read_subscription(member.metadata)
        except WireError:
            continue
        subscriptions[member.member_id] = subscription
    return subscriptions


def write_assignment(names: Iterable[Name], version: int = 1) -> bytes:
    """Encode an assignment in the embedded protocol."""
    return _encode(Assignment(assigned_partitions=partitions_by_topic(names)), version)


@lru_cache(REMEMBERED_MAX)
def _encode(assignment: Assignment, version: int) -> bytes:
    return encode_assignment(assignment, version)


@lru_cache(REMEMBERED_MAX)
def write_subscription(subscription: Subscription, version: int) -> bytes:
    """Encode a subscription in the embedded protocol."""
    return encode_subscription(subscription, version)


@lru_cache(REMEMBERED_MAX)
def read_subscription(data: bytes) -> tuple[int, Subscription]:
    """The version and the subscription. Raises WireError."""
    return decode_subscription(data)


@lru_cache(REMEMBERED_MAX)
def read_assignment(data: bytes) -> frozenset[Name]:
    """The partitions of an encoded assignment; none if it is malformed."""
    try:
        _version, decoded = decode_assignment(data)
    except WireError:
        return frozenset()
    return frozenset(
        (partition.topic, number)
        for partition in decoded.assigned_partitions
        for number in partition.partitions
    )


def partitions_by_topic(names: Iterable[Name]) -> tuple[TopicPartition, ...]:
    """Partitions grouped by topic, as on the wire."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(names):
        by_topic.setdefault(topic, []).append(number)
    return tuple(
        TopicPartition(topic=topic, partitions=tuple(numbers))
        for topic, numbers in by_topic.items()
    )


def _subscribers(subscriptions: Mapping[str, Subscription], topics: Topics) -> dict[str, list[str]]:
    """The existing topics and their subscribers, both sorted."""
    return {
        name: [id_ for id_ in sorted(subscriptions) if name in subscriptions[id_].topics]
        for name in sorted(
            {n for subscription in subscriptions.values() for n in subscription.topics}
        )
        if name in topics.by_name
    }


def _range(subscriptions: Mapping[str, Subscription], topics: Topics) -> dict[str, set[Name]]:
    given: dict[str, set[Name]] = {id_: set() for id_ in subscriptions}
    for topic, ids in _subscribers(subscriptions, topics).items():
        count = topics.by_name[topic].partition_count
        for number in range(count):
            given[ids[number * len(ids) // count]].add((topic, number))
    return given


def _round_robin(subscriptions: Mapping[str, Subscription], topics: Topics) -> dict[str, set[Name]]:
    given: dict[str, set[Name]] = {id_: set() for id_ in subscriptions}
    turns = cycle(sorted(subscriptions))
    for topic, ids in _subscribers(subscriptions, topics).items():
        for number in range(topics.by_name[topic].partition_count):
            given[next(id_ for id_ in turns if id_ in ids)].add((topic, number))
    return given


def _sticky(subscriptions: Mapping[str, Subscription], topics: Topics) -> dict[str, set[Name]]:
    claimants: dict[Name, list[str]] = {}
    for id_ in sorted(subscriptions):
        for partition in subscriptions[id_].owned_partitions:
            for number in partition.partitions:
                claimants.setdefault((partition.topic, number), []).append(id_)
    owners = {name: _owner(ids, subscriptions) for name, ids in claimants.items()}
    given: dict[str, set[Name]] = {id_: set() for id_ in subscriptions}
    target: dict[str, int] = dict.fromkeys(subscriptions, 0)
    for topic, ids in _subscribers(subscriptions, topics).items():
        count = topics.by_name[topic].partition_count
        quota = -(-count // len(ids))
        kept_counts: dict[str, int] = dict.fromkeys(ids, 0)
        free = []
        for number in range(count):
            owner = owners.get((topic, number))
            if owner in kept_counts and kept_counts[owner] < quota:
                kept_counts[owner] += 1
                given[owner].add((topic, number))
            else:
                free.append((topic, number))
        for name in free:
            receiver = min(ids, key=lambda id_: (kept_counts[id_], target[id_]))
            kept_counts[receiver] += 1
            if name not in claimants:
                given[receiver].add(name)
        for id_ in ids:
            target[id_] += kept_counts[id_]
    return given


def _owner(ids: list[str], subscriptions: Mapping[str, Subscription]) -> str | None:
    """The claimant with the newest generation; None if several claimants have it."""
    newest = max(subscriptions[id_].generation_id for id_ in ids)
    valid = [id_ for id_ in ids if subscriptions[id_].generation_id == newest]
    return valid[0] if len(valid) == 1 else None
