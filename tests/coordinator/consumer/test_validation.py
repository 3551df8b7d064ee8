"""Validation of a ConsumerGroupHeartbeat (rule 3.2)."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.consumer.validation import CLIENT_ASSIGNORS_MAX, check_heartbeat
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import ConsumerHeartbeatReceived
from coordinator.interface.records import ClientAssignor
from kafka_codecs.error_codes import ErrorCode
from tests.support.client_assignors import CLIENT_SIDE, weighted_assignor
from tests.support.engine_requests import NATIVE_BEAT, NATIVE_JOIN
from tests.support.group_values import partitions

FOO_0 = partitions({"foo": (0,)})


@pytest.mark.parametrize(
    "event",
    [
        NATIVE_JOIN,
        NATIVE_BEAT,
        replace(NATIVE_JOIN, version=0, member_id=""),
        replace(NATIVE_JOIN, topic_names=()),
        replace(NATIVE_JOIN, topic_names=None, topic_regex=""),
        replace(NATIVE_JOIN, server_assignor="range"),
        replace(NATIVE_BEAT, member_epoch=-1),
        replace(NATIVE_BEAT, member_epoch=-2, instance_id="i"),
        replace(NATIVE_BEAT, version=0, member_id="", member_epoch=-2, instance_id="i"),
    ],
)
def test_valid_heartbeats_pass(event: ConsumerHeartbeatReceived) -> None:
    """An empty subscription is valid. With v0 the client need not generate an id."""
    check_heartbeat(event, GroupConfig())


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (replace(NATIVE_JOIN, member_id=""), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, member_id="  "), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_BEAT, version=0, member_id=""), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_BEAT, version=0, member_id="", member_epoch=-1), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, instance_id=""), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, instance_id=" "), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, rack_id=""), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, rebalance_timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, owned=None), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, lists_owned_topics=True), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, owned=FOO_0), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, topic_names=None), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_BEAT, member_epoch=-2), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_BEAT, member_epoch=-3, instance_id="i"), ErrorCode.INVALID_REQUEST),
        (replace(NATIVE_JOIN, server_assignor="sticky"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (replace(NATIVE_BEAT, server_assignor=""), ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_invalid_heartbeats_are_refused(event: ConsumerHeartbeatReceived, code: ErrorCode) -> None:
    """The check does not depend on the group."""
    with pytest.raises(GroupError) as refusal:
        check_heartbeat(event, GroupConfig())
    assert refusal.value.code is code


@pytest.mark.parametrize(
    "how",
    [
        {"server_assignor": "range"},
        {"client_assignors": (weighted_assignor(name=" "),)},
        {"client_assignors": (weighted_assignor(), weighted_assignor())},
        {"client_assignors": (weighted_assignor(-2, 3),)},
        {"client_assignors": (weighted_assignor(-1, -1),)},
        {"client_assignors": (weighted_assignor(3, 2, version=3),)},
        {"client_assignors": (weighted_assignor(1, 3, version=0),)},
        {"client_assignors": (weighted_assignor(1, 3, version=4),)},
        {
            "client_assignors": tuple(
                weighted_assignor(name=f"{n}") for n in range(CLIENT_ASSIGNORS_MAX + 1)
            )
        },
    ],
)
def test_contradictory_client_side_assignors_are_refused(how: dict[str, Any]) -> None:
    """The KIP says so, where such assignors are switched on. They are ignored elsewhere (rule
    9.7)."""
    event = replace(NATIVE_BEAT, **{"client_assignors": (weighted_assignor(),), **how})
    with pytest.raises(GroupError) as refusal:
        check_heartbeat(event, CLIENT_SIDE)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    check_heartbeat(event, GroupConfig())


@pytest.mark.parametrize(
    "assignor",
    [weighted_assignor(-1, 0, version=-1), weighted_assignor(0, 0), weighted_assignor(2, 5)],
)
def test_valid_client_side_assignors_pass(assignor: ClientAssignor) -> None:
    check_heartbeat(replace(NATIVE_BEAT, client_assignors=(assignor,)), CLIENT_SIDE)
