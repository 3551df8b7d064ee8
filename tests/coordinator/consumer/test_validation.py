"""Validation of a ConsumerGroupHeartbeat (rule 3.2)."""

from dataclasses import replace
from uuid import UUID

import pytest

from coordinator.consumer.validation import check_heartbeat
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import ConsumerHeartbeatReceived
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_values import partitions

JOIN = ConsumerHeartbeatReceived(
    token=1,
    version=1,
    member_id="m",
    member_epoch=0,
    client_id="c",
    client_host="h",
    rebalance_timeout_ms=1,
    topic_names=("foo",),
    owned=frozenset(),
    fresh_id=UUID(int=1),
)
STAY = replace(JOIN, member_epoch=5, rebalance_timeout_ms=-1, topic_names=None, owned=None)
FOO_0 = partitions({"foo": (0,)})


@pytest.mark.parametrize(
    "event",
    [
        JOIN,
        STAY,
        replace(JOIN, version=0, member_id=""),
        replace(JOIN, topic_names=()),
        replace(JOIN, topic_names=None, topic_regex=""),
        replace(JOIN, server_assignor="range"),
        replace(STAY, member_epoch=-1),
        replace(STAY, member_epoch=-2, instance_id="i"),
        replace(STAY, version=0, member_id="", member_epoch=-2, instance_id="i"),
    ],
)
def test_valid_heartbeats_pass(event: ConsumerHeartbeatReceived) -> None:
    """An empty subscription is valid. With v0 the client need not generate an id."""
    check_heartbeat(event, GroupConfig())


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (replace(JOIN, member_id=""), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, member_id="  "), ErrorCode.INVALID_REQUEST),
        (replace(STAY, version=0, member_id=""), ErrorCode.INVALID_REQUEST),
        (replace(STAY, version=0, member_id="", member_epoch=-1), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, instance_id=""), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, instance_id=" "), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, rack_id=""), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, rebalance_timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, owned=None), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, lists_owned_topics=True), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, owned=FOO_0), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, topic_names=None), ErrorCode.INVALID_REQUEST),
        (replace(STAY, member_epoch=-2), ErrorCode.INVALID_REQUEST),
        (replace(STAY, member_epoch=-3, instance_id="i"), ErrorCode.INVALID_REQUEST),
        (replace(JOIN, server_assignor="sticky"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (replace(STAY, server_assignor=""), ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_invalid_heartbeats_are_refused(event: ConsumerHeartbeatReceived, code: ErrorCode) -> None:
    """The check does not depend on the group."""
    with pytest.raises(GroupError) as refusal:
        check_heartbeat(event, GroupConfig())
    assert refusal.value.code is code
