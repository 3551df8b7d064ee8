"""Which requests go to the engine and which to the cluster, and whose connection is whose.
test_group_service.py plays the requests."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.interface.events import ConsumerHeartbeatReceived
from coordinator.interface.replies import ConsumerHeartbeatReply
from gateway.data_path.group_apis import GroupRequest, LazyAnswer
from gateway.data_path.upstream import Upstream
from gateway.groups.group_driver import GroupDriver
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.calls import Answer, Call, Refused
from gateway.requests.member_apis import (
    MemberApis,
    PendingRequest,
    is_foreign,
    member_of,
    record_member,
    why_withheld,
)
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.group_requests import join_request
from tests.support.hosted_groups import lone_request


def join(protocol_type: str, *protocols: str) -> JoinGroupRequest:
    """A JoinGroup with these protocols."""
    offered = [(name, b"") for name in protocols]
    return join_request("g", protocol_type=protocol_type, protocols=offered)


JOIN = join("consumer", "range")
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
SYNC = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())
NATIVE = ConsumerGroupHeartbeatRequest(group_id="g", member_id="", member_epoch=0)


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


def join_response(member_id: str, error_code: int = 0) -> JoinGroupResponse:
    """The answer to a join."""
    return JoinGroupResponse(
        error_code=error_code,
        generation_id=1,
        protocol_name="range",
        leader="l",
        member_id=member_id,
        members=(),
    )


class Connection:
    """Stands for a client's connection."""

    def __init__(self) -> None:
        self.member: tuple[str, str] | None = None

    def request(self, message: Struct) -> GroupRequest:
        return replace(lone_request(message, 1), upstream=cast(Upstream, self))


def speaker(connection: Connection, group_id: str = "g") -> str | None:
    """The member that fetches offsets on the connection."""
    request = connection.request(OffsetFetchRequest(group_id=group_id, topics=()))
    return member_of(request, group_id)


@pytest.mark.parametrize(
    ("answer", "is_refused"),
    [
        (Refused(RefusalReason.NOT_ANCHORED, "it rejoins"), True),
        (ConsumerHeartbeatReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE), False),
    ],
)
def test_a_refusal_of_the_gateway_is_distinguished_from_an_error_of_the_group(
    answer: Answer, *, is_refused: bool
) -> None:
    """What the group has decided may hide behind the refusal, which is why a later statement of the
    client proves nothing (DEV D90)."""
    request = Connection().request(NATIVE)
    call = Call(api=GroupApi.CONSUMER_JOIN, make=None)
    call.end(answer)
    asked = PendingRequest(
        request=request, message=NATIVE, call=call, driver=cast(GroupDriver, None)
    )
    assert asked.answer is not None
    assert request.is_refused is is_refused


@pytest.mark.parametrize("lacks_answer", [False, True])
def test_a_client_that_lacks_an_answer_follows_none(*, lacks_answer: bool) -> None:
    events: list[ConsumerHeartbeatReceived] = []

    class Driver:
        def answer_at_rest(self, event: ConsumerHeartbeatReceived) -> ConsumerHeartbeatReply:
            events.append(event)
            return ConsumerHeartbeatReply()

    groups = SimpleNamespace(drivers=SimpleNamespace(in_memory=lambda _group_id: Driver()))
    coordinators = SimpleNamespace(is_at_lately=lambda *_: True)
    apis = MemberApis(cast(Any, groups), cast(Any, coordinators), cast(Any, None), None)
    upstream = SimpleNamespace(number=1, newest_number=1)
    request = replace(lone_request(NATIVE, 1), upstream=cast(Upstream, upstream))
    request.lacks_answer = lacks_answer
    apis.answer(request, NATIVE)
    assert [event.follows_answers for event in events] == [not lacks_answer]


@pytest.mark.parametrize("has_to_be_loaded", [False, True])
def test_a_group_that_has_to_be_loaded_is_asked_without_a_task(*, has_to_be_loaded: bool) -> None:
    """A group in memory is asked so, too. Thousands of its members may come back together."""
    asked: list[Call] = []
    driver = SimpleNamespace(begin=asked.append)
    drivers = SimpleNamespace(
        in_memory=lambda _group_id: None,
        needs_driver=lambda _group_id: has_to_be_loaded,
        driver=lambda *_: driver,
    )
    groups, coordinators = (
        SimpleNamespace(drivers=drivers),
        SimpleNamespace(is_at_lately=lambda *_: True),
    )
    apis = MemberApis(cast(Any, groups), cast(Any, coordinators), cast(Any, None), None)
    upstream = SimpleNamespace(number=1, newest_number=1, has_client=True)
    request = replace(lone_request(BEAT, 4), upstream=cast(Upstream, upstream))
    answer = apis.answer(request, BEAT)
    assert isinstance(answer, PendingRequest if has_to_be_loaded else LazyAnswer)
    assert bool(asked) is has_to_be_loaded


def test_every_request_of_a_member_identifies_its_connection() -> None:
    """A restarted gateway sees no join."""
    for message, answer in (
        (JOIN, join_response("m")),
        (SYNC, SyncGroupResponse(assignment=b"")),
        (BEAT, HeartbeatResponse()),
        (NATIVE, ConsumerGroupHeartbeatResponse(member_id="m")),
    ):
        connection, other = Connection(), Connection()
        record_member(connection.request(message), answer)
        assert speaker(connection) == "m"
        assert speaker(connection, "other") is None
        assert speaker(other) is None


def test_the_latest_member_counts() -> None:
    """A fenced client rejoins with another id on the same connection."""
    connection = Connection()
    record_member(connection.request(JOIN), join_response("m"))
    record_member(connection.request(JOIN), join_response("n"))
    assert speaker(connection) == "n"


def test_a_refused_client_is_no_member() -> None:
    """Neither is a client that has only received an id."""
    connection = Connection()
    record_member(
        connection.request(JOIN), join_response("m", error_code=ErrorCode.MEMBER_ID_REQUIRED)
    )
    record_member(
        connection.request(BEAT), HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    )
    assert speaker(connection) is None


@pytest.mark.parametrize(
    ("answer", "at_any_time", "in_a_move"),
    [
        (join_response("m", ErrorCode.INCONSISTENT_GROUP_PROTOCOL), True, True),
        (join_response("m", ErrorCode.UNKNOWN_MEMBER_ID), False, False),
        (ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND), True, True),
        (ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), False, True),
        (ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NONE), False, False),
    ],
)
def test_an_answer_may_be_about_an_anchor(
    answer: Struct, *, at_any_time: bool, in_a_move: bool
) -> None:
    """Clients take it as final. While the group moves, it counts as one in any case."""
    assert (why_withheld(answer, is_moving=False) is RefusalReason.HOLDER_CHANGED) is at_any_time
    assert (why_withheld(answer, is_moving=True) is RefusalReason.MOVING) is in_a_move
