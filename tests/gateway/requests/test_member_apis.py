"""Which requests go to the engine and which to the cluster. test_group_service.py plays them."""

import pytest

from gateway.requests.member_apis import is_foreign
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest


def join(protocol_type: str, *protocols: str) -> JoinGroupRequest:
    """A JoinGroup with these protocols."""
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type=protocol_type,
        protocols=tuple(JoinGroupProtocol(name=each, metadata=b"") for each in protocols),
    )


@pytest.mark.parametrize(
    ("message", "foreign"),
    [
        (join("consumer", "range", "roundrobin"), False),
        (join("consumer", "range", "stream"), True),
        (join("connect", "compatible"), True),
        (join("sr", "v0"), True),
        (join("", "range"), False),
    ],
)
def test_only_consumers_join_hosted_groups(message: JoinGroupRequest, *, foreign: bool) -> None:
    """Connect, Schema Registry and Streams stay with the cluster. The engine refuses a join without
    a protocol type."""
    assert is_foreign(message) is foreign
