"""Requests about groups, as consumers send them unless a test says otherwise."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from coordinator.interface.events import JOIN_EPOCH
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_codecs.offset_fetch import OffsetFetchRequestTopic
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest
from tests.support.group_values import Owned, embedded_assignment, subscription

Share = Owned | bytes


def join_request(
    group_id: str,
    topics: Iterable[str] = (),
    *,
    member_id: str = "",
    instance_id: str | None = None,
    owned: Owned | None = None,
    generation: int = -1,
    rack: str | None = None,
    embedded_version: int = 1,
    protocol: str = "range",
    metadata: bytes | None = None,
    protocols: Iterable[tuple[str, bytes]] | None = None,
    timeout_ms: int = 10_000,
    **fields: Any,
) -> JoinGroupRequest:
    """A JoinGroup with a subscription to these topics, unless its metadata or its protocols are
    given. Both timeouts are equal unless stated."""
    if protocols is None:
        if metadata is None:
            metadata = subscription(
                topics,
                owned=owned,
                generation=generation,
                rack_id=rack,
                version=embedded_version,
            )
        protocols = [(protocol, metadata)]
    usual: dict[str, Any] = {
        "session_timeout_ms": timeout_ms,
        "rebalance_timeout_ms": timeout_ms,
        "protocol_type": "consumer",
    }
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=instance_id,
        protocols=tuple(JoinGroupProtocol(name=name, metadata=data) for name, data in protocols),
        **(usual | fields),
    )


def sync_request(
    group_id: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, Share] | None = None,
    *,
    instance_id: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroupRequest:
    """A SyncGroup with the shares of these members."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=tuple(
            SyncGroupAssignment(
                member_id=assignee,
                assignment=share if isinstance(share, bytes) else embedded_assignment(share),
            )
            for assignee, share in (assignments or {}).items()
        ),
    )


def fetched_topics(of: Owned) -> tuple[OffsetFetchRequestTopic, ...]:
    return tuple(
        OffsetFetchRequestTopic(name=name, partition_indexes=tuple(numbers))
        for name, numbers in of.items()
    )


def offset_delete_request(group_id: str, of: Owned) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=name,
                partitions=tuple(
                    OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                ),
            )
            for name, numbers in of.items()
        ),
    )


def native_request(
    group_id: str,
    member_id: str,
    epoch: int = JOIN_EPOCH,
    *,
    topics: Iterable[str] | None = ("foo",),
    regex: str | None = None,
    owned: Mapping[UUID, Iterable[int]] | None = None,
    rebalance_timeout_ms: int = 10_000,
    **fields: Any,
) -> ConsumerGroupHeartbeatRequest:
    """A ConsumerGroupHeartbeat. Only one that joins has topics and a timeout."""
    joins = epoch == JOIN_EPOCH
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=rebalance_timeout_ms if joins else -1,
        subscribed_topic_names=tuple(topics) if joins and topics is not None else None,
        subscribed_topic_regex=regex,
        topic_partitions=by_topic_id(owned or {}) if joins or owned is not None else None,
        **fields,
    )


def by_topic_id(owned: Mapping[UUID, Iterable[int]]) -> tuple[TopicPartitions, ...]:
    """Partitions as the messages of the new protocol have them."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
        for topic_id, numbers in owned.items()
    )
