"""Clients that join a group, or are refused, are reported once."""

from dataclasses import replace
from typing import Any, cast

import pytest

from coordinator.interface.records import RemovalCause
from gateway.data_path.brokers import ClientSoftware
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from gateway.events.event import GatewayEvent
from gateway.events.member_events import MemberLeft
from gateway.observers import clients_seen
from gateway.observers.clients_seen import ClientsSeen
from gateway.quotas.shares import ShareRule
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tests.support.group_requests import join_request
from tests.support.group_script import subscription
from tests.support.hosted_groups import lone_request

JOIN = join_request(
    "orders",
    instance_id="i",
    rebalance_timeout_ms=60_000,
    protocols=[("cooperative-sticky", subscription(["foo"])), ("range", bytes(6))],
)
JOINED = JoinGroupResponse(
    error_code=0,
    generation_id=1,
    protocol_type="consumer",
    protocol_name="range",
    leader="m",
    member_id="m",
    members=(),
)
NATIVE = ConsumerGroupHeartbeatRequest(group_id="orders", member_id="n", member_epoch=0)


class _Introduced:
    introduction = ClientSoftware(name="lib", version="1.2")


class Seen(ClientsSeen):
    """The reports with their groups."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, GatewayEvent]] = []
        super().__init__(
            lambda event, group_id=None, owner=None: self.told.append(  # noqa: ARG005
                (group_id, event)
            ),
            ShareRule(),
        )

    def see(self, message: Struct, answer: Struct, **changes: Any) -> None:
        self.record(replace(lone_request(message, 5), **changes), answer)

    @property
    def names(self) -> list[str]:
        return [event.name for _group_id, event in self.told]


def request_with_software(message: Struct) -> GroupRequest:
    """The request of a client that names its software."""
    return replace(lone_request(message, 5), upstream=cast(Upstream, _Introduced()))


def test_a_classic_join_reports_software_and_protocols() -> None:
    """The lowest embedded version is reported, because every member can read it."""
    seen = Seen()
    seen.record(request_with_software(JOIN), JOINED)
    ((group_id, event),) = seen.told
    assert group_id == "orders"
    assert event.fields == {
        "member_id": "m",
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "instance_id": "i",
        "software_name": "lib",
        "software_version": "1.2",
        "protocol": "classic",
        "protocol_type": "consumer",
        "embedded_version": 0,
        "assignors": ["cooperative-sticky", "range"],
    }


def test_a_native_client_is_reported_when_it_joins() -> None:
    """Later heartbeats are not reported. The client's software may be unknown."""
    seen = Seen()
    seen.see(NATIVE, ConsumerGroupHeartbeatResponse(member_id="n", member_epoch=1))
    seen.see(replace(NATIVE, member_epoch=1), ConsumerGroupHeartbeatResponse(member_id="n"))
    ((_group_id, event),) = seen.told
    assert (event.fields["protocol"], event.fields["software_name"]) == ("consumer", None)


@pytest.mark.parametrize(
    ("message", "answer", "left"),
    [
        (
            LeaveGroupRequest(group_id="orders", member_id="m"),
            LeaveGroupResponse(),
            ["m"],
        ),
        (
            LeaveGroupRequest(
                group_id="orders",
                members=(MemberIdentity(member_id="m"), MemberIdentity(member_id="unknown")),
            ),
            LeaveGroupResponse(
                members=(
                    MemberResponse(member_id="m", group_instance_id=None),
                    MemberResponse(
                        member_id="unknown",
                        group_instance_id=None,
                        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                    ),
                )
            ),
            ["m"],
        ),
        (
            replace(NATIVE, member_epoch=-1),
            ConsumerGroupHeartbeatResponse(member_id="n", member_epoch=-1),
            ["n"],
        ),
        (
            replace(NATIVE, member_epoch=-2),
            ConsumerGroupHeartbeatResponse(member_id="n", member_epoch=-2),
            [],
        ),
        (
            LeaveGroupRequest(group_id="orders", member_id="m"),
            LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR),
            [],
        ),
    ],
    ids=["classic", "several", "native", "static", "refused"],
)
def test_a_departure_that_the_cluster_accepted_is_reported(
    message: Struct, answer: Struct, left: list[str]
) -> None:
    """A static member that means to come back has not left."""
    seen = Seen()
    seen.record_departure(lone_request(message, 5), answer)
    assert seen.told == [
        ("orders", MemberLeft(member_id=member_id, cause=RemovalCause.LEFT)) for member_id in left
    ]


def test_a_client_is_reported_once_until_it_changes() -> None:
    """The number of its joins does not matter."""
    seen = Seen()
    for _ in range(3):
        seen.record(request_with_software(JOIN), JOINED)
    seen.see(JOIN, JOINED)
    seen.see(replace(JOIN, group_id="other"), JOINED)
    assert [group_id for group_id, _event in seen.told] == ["orders", "orders", "other"]


def test_a_refused_conversion_is_reported_with_its_reason() -> None:
    """The reason is that of the answer. Repeated attempts are reported once."""
    seen = Seen()
    for _ in range(2):
        answer = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="the policy"
        )
        seen.see(NATIVE, answer)
    assert seen.names == ["client_seen", "conversion_refused"]
    assert seen.told[-1][1].fields == {
        "direction": "classic->consumer",
        "member_id": "n",
        "client_id": "client",
        "reason": "the policy",
    }


def test_other_refusals_are_not_reported_as_conversions() -> None:
    """The client retries, or its request is invalid."""
    seen = Seen()
    seen.see(
        NATIVE, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    )
    seen.see(
        HeartbeatRequest(group_id="orders", generation_id=1, member_id="m"),
        HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID),
    )
    assert seen.names == ["client_seen"]


def test_the_oldest_reports_are_forgotten(monkeypatch: Any) -> None:
    """Memory is limited, and active clients are never the oldest."""
    monkeypatch.setattr(clients_seen, "REMEMBERED_MAX", 4)
    seen = Seen()
    for group_id in ("a", "b", "a", "c", "a", "b"):
        seen.see(replace(JOIN, group_id=group_id), JOINED)
    assert [group_id for group_id, _event in seen.told] == ["a", "b", "c", "b"]


def test_the_subject_of_a_certificate_is_reported() -> None:
    """The cluster does not see it."""
    seen = Seen()
    seen.see(JOIN, JOINED, tls_subject="CN=alice")
    seen.see(NATIVE, ConsumerGroupHeartbeatResponse(), tls_subject="CN=alice")
    assert [event.fields["tls_subject"] for _, event in seen.told] == ["CN=alice", "CN=alice"]


def test_a_client_that_never_comes_back_with_its_id_is_not_reported() -> None:
    """The client could ask for ids without end, and each would be new."""
    seen = Seen()
    join = replace(JOIN, group_instance_id=None)
    for number in range(100):
        answer = replace(
            JOINED, error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=f"client-{number}"
        )
        seen.see(join, answer)
    assert seen.told == []
    seen.see(replace(join, member_id="client-1"), replace(JOINED, member_id="client-1"))
    assert seen.names == ["client_seen"]


def test_reports_count_towards_the_history_of_the_client() -> None:
    """Whatever it asks for: it chooses the names in them."""
    owners: list[object] = []
    seen = ClientsSeen(
        lambda event, group_id=None, owner=None: owners.append(owner),  # noqa: ARG005
        ShareRule(),
    )
    join = lone_request(JOIN, 5)
    seen.record(join, JOINED)
    native = lone_request(NATIVE, 0)
    refused = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    seen.record(native, refused)
    leave = lone_request(LeaveGroupRequest(group_id="g", member_id="m"), 0)
    seen.record_departure(leave, LeaveGroupResponse())
    assert owners == [join.owner, native.owner, native.owner, leave.owner]
