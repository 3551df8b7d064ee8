"""Requests as the engine receives them, of ordinary clients unless a test says otherwise.

`fields` are those of the request itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import ClientAssignor, Protocols
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from tests.support.group_values import (
    NAMESPACE,
    Owned,
    embedded_assignment,
    partitions,
    subscription,
)

CLIENT_ID = "client"
CLIENT_HOST = "/127.0.0.1"


def join_received(
    member_id: str = "",
    *,
    token: Token = 1,
    topics: Iterable[str] = ("foo",),
    owned: Owned | None = None,
    generation: int = -1,
    embedded_version: int = 1,
    protocol: str = "range",
    metadata: bytes | None = None,
    protocols: Protocols | None = None,
    fresh_id: UUID | None = None,
    **fields: Any,
) -> JoinGroupReceived:
    """A JoinGroup with a subscription to these topics, unless its metadata or its protocols are
    given."""
    if protocols is None and metadata is None:
        metadata = subscription(
            topics, owned=owned, generation=generation, version=embedded_version
        )
    usual: dict[str, Any] = {
        "version": 9,
        "instance_id": None,
        "client_id": CLIENT_ID,
        "protocol_type": "consumer",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
    }
    return JoinGroupReceived(
        token=token,
        member_id=member_id,
        client_host=CLIENT_HOST,
        protocols=((protocol, metadata or b""),) if protocols is None else protocols,
        fresh_id=fresh_id or _fresh_id(token),
        **(usual | fields),
    )


def sync_received(
    member_id: str,
    generation: int,
    assignments: Mapping[str, Owned] | None = None,
    *,
    token: Token = 1,
    version: int = 5,
    instance_id: str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> SyncGroupReceived:
    """A SyncGroup, with assignments if the member leads."""
    return SyncGroupReceived(
        token=token,
        version=version,
        member_id=member_id,
        instance_id=instance_id,
        generation=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=tuple(
            (assignee, embedded_assignment(owned))
            for assignee, owned in (assignments or {}).items()
        ),
    )


def heartbeat_received(
    member_id: str, generation: int, *, token: Token = 1, instance_id: str | None = None
) -> HeartbeatReceived:
    return HeartbeatReceived(
        token=token, member_id=member_id, instance_id=instance_id, generation=generation
    )


def leave_received(
    *members: str | tuple[str, str | None], token: Token = 1, reason: str | None = None
) -> LeaveGroupReceived:
    """A LeaveGroup of member ids, or of pairs of member id and instance id."""
    pairs = [(member, None) if isinstance(member, str) else member for member in members]
    return LeaveGroupReceived(
        token=token,
        members=tuple(
            Leaver(member_id=member_id, instance_id=instance_id, reason=reason)
            for member_id, instance_id in pairs
        ),
    )


def native_received(
    member_id: str,
    epoch: int = JOIN_EPOCH,
    *,
    token: Token = 1,
    topics: Iterable[str] | None = None,
    regex: str | None = None,
    owned: Owned | None = None,
    assignor: str | None = None,
    client_assignors: Iterable[ClientAssignor] | None = None,
    rebalance_timeout_ms: int = -1,
    version: int = 1,
    client_id: str = CLIENT_ID,
    fresh_id: UUID | None = None,
    **fields: Any,
) -> ConsumerHeartbeatReceived:
    """A ConsumerGroupHeartbeat. One that joins has all fields that joining needs."""
    if epoch == JOIN_EPOCH:
        topics = ("foo",) if topics is None and regex is None else topics
        owned = {} if owned is None else owned
        rebalance_timeout_ms = 10_000 if rebalance_timeout_ms == -1 else rebalance_timeout_ms
    return ConsumerHeartbeatReceived(
        token=token,
        member_id=member_id,
        member_epoch=epoch,
        version=version,
        client_id=client_id,
        client_host=CLIENT_HOST,
        rebalance_timeout_ms=rebalance_timeout_ms,
        topic_names=None if topics is None else tuple(topics),
        topic_regex=regex,
        server_assignor=assignor,
        client_assignors=None if client_assignors is None else tuple(client_assignors),
        owned=None if owned is None else partitions(owned),
        fresh_id=fresh_id or _fresh_id(token),
        **fields,
    )


def commit_received(
    member_id: str,
    epoch: int,
    of: Owned,
    topics: Topics,
    *,
    token: Token = 1,
    version: int = 9,
    instance_id: str | None = None,
    is_transactional: bool = False,
) -> OffsetCommitReceived:
    return OffsetCommitReceived(
        token=token,
        version=version,
        member_id=member_id,
        instance_id=instance_id,
        epoch=epoch,
        topic_names=frozenset(of),
        partitions=topics.partitions(of.items()),
        is_transactional=is_transactional,
    )


def _fresh_id(token: Token) -> UUID:
    """What stands for a random id."""
    return uuid5(NAMESPACE, str(token))


CLASSIC_JOIN = join_received("c1", protocols=(), fresh_id=UUID(int=1))
NATIVE_JOIN = native_received("n1", fresh_id=UUID(int=1))
NATIVE_BEAT = replace(
    NATIVE_JOIN, member_epoch=1, rebalance_timeout_ms=-1, topic_names=None, owned=None
)
