"""Requests about groups, as consumers send them unless a test says otherwise."""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest
from tests.support.group_values import Owned, embedded_assignment, subscription

Share = Owned | bytes


def join_request(
    group_id: str,
    topics: Iterable[str] = (),
    *,
    member_id: str = "",
    instance_id: str | None = None,
    protocols: Iterable[tuple[str, bytes]] | None = None,
    timeout_ms: int = 10_000,
    **fields: Any,
) -> JoinGroupRequest:
    """A JoinGroup: of a consumer that subscribes to these topics, unless protocols are given. Both
    timeouts are equal unless stated."""
    offered = [("range", subscription(topics))] if protocols is None else protocols
    usual: dict[str, Any] = {
        "session_timeout_ms": timeout_ms,
        "rebalance_timeout_ms": timeout_ms,
        "protocol_type": "consumer",
    }
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=instance_id,
        protocols=tuple(JoinGroupProtocol(name=name, metadata=data) for name, data in offered),
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
