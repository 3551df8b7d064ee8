"""Requests as the engine receives them, with ordinary values. A test replaces what it is about."""

from dataclasses import replace
from uuid import UUID

from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived

CLASSIC_JOIN = JoinGroupReceived(
    token=1,
    version=9,
    member_id="c1",
    instance_id=None,
    client_id="client",
    client_host="/127.0.0.1",
    protocol_type="consumer",
    protocols=(),
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    fresh_id=UUID(int=1),
)
NATIVE_JOIN = ConsumerHeartbeatReceived(
    token=1,
    version=1,
    member_id="n1",
    member_epoch=0,
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=10_000,
    topic_names=("foo",),
    owned=frozenset(),
    fresh_id=UUID(int=1),
)
NATIVE_BEAT = replace(
    NATIVE_JOIN, member_epoch=1, rebalance_timeout_ms=-1, topic_names=None, owned=None
)
