"""Calls that wait: in their order, with a limit, and each with one answer."""

from gateway.hosting.answers import Situation
from gateway.hosting.calls import Refused
from gateway.hosting.effects import AskCoordinator
from gateway.hosting.inputs import Ending
from gateway.hosting.waiting import JOIN_PATIENCE_MS
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest
from tests.support.hosted_scene import (
    HostedScene,
    error_of,
    situation_of,
)


def test_no_join_waits_long(on: HostedScene) -> None:
    """Then the client must retry, and the anchor continues to try."""
    on.hold(AskCoordinator)
    call = on.native("n")
    on.wait(JOIN_PATIENCE_MS - 1)
    assert call.answer is None
    on.wait(1)
    assert situation_of(call) is Situation.NOT_ANCHORED
    assert on.group.anchor.is_here


def test_waiting_joins_get_the_reason_without_addresses(on: HostedScene) -> None:
    """The log has the details, once."""
    on.coordinator_failure = "nobody listens at 10.0.0.7"
    call = on.native("n")
    on.wait(JOIN_PATIENCE_MS)
    assert isinstance(call.answer, Refused)
    assert "no usable answer" in call.answer.why
    assert on.logged().count("anchor_lost") == 1
    assert "10.0.0.7" not in call.answer.why


def test_many_joins_wait_for_one_anchor_and_go_in_order(on: HostedScene) -> None:
    """The first one to join leads."""
    on.hold(AskCoordinator)
    ids = [f"n{number}" for number in range(20)]
    calls = [on.native(member_id) for member_id in ids]
    on.release(AskCoordinator)
    assert {error_of(call) for call in calls} == {ErrorCode.NONE}
    assert [each["member_id"] for each in on.told("member_joined")] == ids
    assert on.asked(JoinGroupRequest) == 1


def test_a_call_is_answered_once(on: HostedScene) -> None:
    """Its client may be gone by then."""
    on.hold(AskCoordinator)
    call = on.native("n")
    on.gone(call)
    answer = call.answer
    on.release(AskCoordinator)
    on.wait(JOIN_PATIENCE_MS)
    assert call.answer is answer
    assert not on.group.calls.open_calls.by_token


def test_nothing_waits_for_the_anchor_once_the_gateway_ends(on: HostedScene) -> None:
    on.hold(AskCoordinator)
    call = on.native("n")
    on.feed(Ending())
    assert situation_of(call) is Situation.NOT_ANCHORED
    assert isinstance(call.answer, Refused)
    assert call.answer.why == "the gateway is shutting down"
