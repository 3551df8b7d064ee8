"""Which requests go to the engine and which to the cluster. test_group_service.py plays them."""

import pytest

from gateway.requests.group_calls import ask_cluster, is_foreign
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest
from tests.support.hosted_groups import lone_request


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


async def test_a_cluster_without_the_new_protocol_has_no_such_group() -> None:
    """The client reads why its group cannot become a consumer group."""
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    answer = await ask_cluster(lone_request(message, 0), message)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND  # type: ignore[attr-defined]
    assert "does not know the new protocol" in answer.error_message  # type: ignore[attr-defined]
