"""Calls that wait: in their order, with a limit, each with one answer, and with an anchor."""

from dataclasses import replace

import pytest

from coordinator.interface.errors import InvariantError
from coordinator.interface.events import ConsumerHeartbeatReceived
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.call_stages import JOIN_WAIT_MS
from gateway.hosting.calls import Call, Refused, Released
from gateway.hosting.effects import AskCoordinator, Write
from gateway.hosting.inputs import Damage, Ending
from gateway.hosting.lookup_outcome import NoMembers
from gateway.hosting.states import Stage
from gateway.hosting.upstream_member import HEARTBEAT_INTERVAL_MS, LAST_BACKOFF_MS
from gateway.hosting.waiting_calls import WaitingCalls
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from tests.simulation.coordinator import FakeGroup
from tests.support.broken_engine import break_engine
from tests.support.engine_requests import CLASSIC_JOIN
from tests.support.hosted_scene import HostedScene, cause_of, error_of

NOW_MS = 1_000


@pytest.fixture
def waiting() -> WaitingCalls:
    """No calls so far."""
    return WaitingCalls()


def join(connection: int, member_id: str = "", instance_id: str | None = None) -> Call:
    event = replace(CLASSIC_JOIN, member_id=member_id, instance_id=instance_id)
    return Call(api=GroupApi.JOIN, event=event, connection=connection)


def test_no_join_waits_long(on: HostedScene) -> None:
    """After a while the client must retry, and the anchor continues to try."""
    on.hold(AskCoordinator)
    call = on.native("n")
    on.wait(JOIN_WAIT_MS - 1)
    assert call.answer is None
    on.wait(1)
    assert cause_of(call) is RefusalReason.NOT_ANCHORED
    assert on.group.anchor.is_here


def test_waiting_joins_get_the_reason_without_addresses(on: HostedScene) -> None:
    """The log has the details, once."""
    on.coordinator_failure = "nobody listens on 10.0.0.7"
    call = on.native("n")
    on.wait(JOIN_WAIT_MS)
    assert isinstance(call.answer, Refused)
    assert "no usable answer" in call.answer.reason
    assert on.log_names().count("anchor_lost") == 1
    assert "10.0.0.7" not in call.answer.reason


def test_many_joins_wait_for_one_anchor_and_go_in_order(on: HostedScene) -> None:
    """The first one to join leads."""
    on.hold(AskCoordinator)
    ids = [f"n{number}" for number in range(20)]
    calls = [on.native(member_id) for member_id in ids]
    on.release(AskCoordinator)
    assert {error_of(call) for call in calls} == {ErrorCode.NONE}
    assert [fields["member_id"] for fields in on.events_named("member_joined")] == ids
    assert on.count_requests(JoinGroupRequest) == 1


def test_a_call_is_answered_once(on: HostedScene) -> None:
    """Its client may be gone by then."""
    on.hold(AskCoordinator)
    call = on.native("n")
    on.disconnect(call)
    answer = call.answer
    on.release(AskCoordinator)
    on.wait(JOIN_WAIT_MS)
    assert call.answer is answer
    assert not on.group.calls.by_token


def test_nothing_waits_for_the_anchor_once_the_gateway_ends(on: HostedScene) -> None:
    on.hold(AskCoordinator)
    call = on.native("n")
    on.feed(Ending())
    assert cause_of(call) is RefusalReason.NOT_ANCHORED
    assert isinstance(call.answer, Refused)
    assert call.answer.reason == "the gateway is shutting down"


# -- how long, and in which order ------------------------------------------------------------------


def test_a_call_keeps_its_first_limit(waiting: WaitingCalls) -> None:
    """Waiting for several things one after the other does not take longer."""
    call = join(1)
    assert waiting.add_until(call, NOW_MS + 10, NOW_MS)
    assert waiting.add_until(call, NOW_MS + 20, NOW_MS + 5)
    assert waiting.next_ms() == NOW_MS + 10
    assert not waiting.add_until(call, NOW_MS + 30, NOW_MS + 10)


def test_a_call_expires_at_its_limit_and_not_before(waiting: WaitingCalls) -> None:
    """The call expires once, though it has begun to wait twice."""
    patient, call = join(1), join(2)
    waiting.add(patient)
    waiting.add_until(call, NOW_MS + 10, NOW_MS)
    waiting.add_until(call, NOW_MS + 10, NOW_MS)
    assert not waiting.take_expired(NOW_MS + 9)
    assert [*waiting] == [patient, call]
    assert waiting.take_expired(NOW_MS + 10) == [call]
    assert [*waiting] == [patient]


def test_an_answered_call_wakes_nobody(waiting: WaitingCalls) -> None:
    """Its limit would wake the group for nothing."""
    call = join(1)
    waiting.add_until(call, NOW_MS + 10, NOW_MS)
    waiting.forget(call)
    assert waiting.next_ms() is None
    assert not waiting


def test_a_limit_that_was_lifted_is_over(waiting: WaitingCalls) -> None:
    """A call that got what it waited for may wait for the next thing without a limit."""
    call = join(1)
    waiting.add_until(call, NOW_MS + 10, NOW_MS)
    call.give_up_ms = None
    assert not waiting.take_expired(NOW_MS + 10)
    assert call in waiting


# -- joins that a move holds -----------------------------------------------------------------------


def test_the_join_on_the_newest_connection_counts(waiting: WaitingCalls) -> None:
    """An older one may also arrive later."""
    first, newest, oldest = join(2, "", "one"), join(3, "m", "one"), join(1, "", "one")
    assert [waiting.hold_join(call) for call in (first, newest, oldest)] == [None, first, oldest]


def test_joins_of_one_connection_are_in_order_already(waiting: WaitingCalls) -> None:
    assert [waiting.hold_join(join(1, "m")), waiting.hold_join(join(1, "m"))] == [None, None]


def test_clients_without_an_identity_are_strangers_to_each_other(waiting: WaitingCalls) -> None:
    assert [waiting.hold_join(join(1)), waiting.hold_join(join(2))] == [None, None]


def test_a_join_that_has_its_answer_is_forgotten(waiting: WaitingCalls) -> None:
    first = join(1, "m")
    waiting.hold_join(first)
    waiting.forget(first)
    assert waiting.hold_join(join(2, "m")) is None


def test_an_older_join_of_a_client_that_has_joined_again_is_refused(on: HostedScene) -> None:
    """Answered late, it would replace a static member that is alive."""
    calls, older, newer = on.group.calls, join(1, "m"), join(2, "m")
    for call in (older, newer):
        calls.by_token[call.token] = call
        calls.wait_for_move(call, NOW_MS)
    assert cause_of(older) is RefusalReason.MOVING
    assert newer.answer is None


# -- the anchor ------------------------------------------------------------------------------------


def test_no_member_joins_before_the_group_is_held(on: HostedScene) -> None:
    """A consumer in the cluster may join first."""
    on.hold(AskCoordinator)
    call = on.native("n")
    assert (call.answer, call.stage) == (None, Stage.ADMITTING)
    assert not on.group.is_live
    on.release(AskCoordinator)
    assert error_of(call) is ErrorCode.NONE


def test_the_first_to_join_in_the_cluster_has_the_group(on: HostedScene) -> None:
    """The look saw no members, and then a consumer joined there."""
    on.coordinator.groups[on.group.group_id] = FakeGroup(
        protocol_type="consumer", protocol="range", member_id="theirs", is_synced=True
    )
    on.found = NoMembers()
    on.hold(AskCoordinator)
    call = on.native("n")
    on.found = None
    on.release(AskCoordinator)
    on.wait(1_000)
    assert cause_of(call) is RefusalReason.NOT_ANCHORED
    assert on.in_cluster.member_id == "theirs"
    assert not on.group.is_live
    on.wait(1_000)
    assert on.group.is_idle


def test_an_anchor_taken_for_a_refused_join_leaves_at_once(
    on: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No member was admitted. Otherwise it would linger."""
    on.hold(AskCoordinator)
    call = on.native("n")
    break_engine(monkeypatch, ConsumerHeartbeatReceived, InvariantError("a bug"))
    on.release(AskCoordinator)
    assert cause_of(call) is RefusalReason.RELOADING
    assert not on.group.anchor.is_here
    assert on.in_cluster.member_id == ""


@pytest.mark.parametrize("failing", ["a", "b"])
def test_of_two_joins_one_that_fails_leaves_the_anchor_to_the_other(
    on: HostedScene, failing: str
) -> None:
    """Neither found the group held when it arrived."""
    on.is_too_large = lambda record: getattr(record, "member_id", "") == failing
    on.hold(AskCoordinator)
    calls = {member_id: on.native(member_id) for member_id in ("a", "b")}
    on.release(AskCoordinator)
    assert cause_of(calls.pop(failing)) is RefusalReason.LOG_FAILED
    (other,) = calls.values()
    assert error_of(other) is ErrorCode.NONE
    assert on.count_requests(LeaveGroupRequest) == 0


def test_a_join_that_fails_keeps_the_anchor_for_one_that_waits(on: HostedScene) -> None:
    """The second would otherwise wait until the anchor has left and joined again."""
    on.hold(Write)
    first = on.native("a")
    on.in_cluster.remove_member()
    on.coordinator.refuses_joins_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    on.wait(HEARTBEAT_INTERVAL_MS)
    second = on.native("b")
    assert second.stage is Stage.ADMITTING
    on.damage = Damage.NONE
    on.release(Write)
    assert cause_of(first) is RefusalReason.LOG_FAILED
    on.damage, on.coordinator.refuses_joins_with = None, 0
    on.wait(LAST_BACKOFF_MS)
    assert error_of(second) is ErrorCode.NONE
    assert on.count_requests(LeaveGroupRequest) == 0


def test_an_anchor_stays_for_a_client_that_comes_back_with_its_id(on: HostedScene) -> None:
    """MEMBER_ID_REQUIRED is no refusal for good."""
    assert error_of(on.join()) is ErrorCode.MEMBER_ID_REQUIRED
    assert on.count_requests(LeaveGroupRequest) == 0


def test_without_anchors_the_cluster_is_not_asked() -> None:
    """The embedded cluster has none, and other clients are not kept out."""
    on = HostedScene(can_anchor=False)
    on.native_member()
    assert on.count(AskCoordinator) == 0
    on.native("n", -1)
    assert isinstance(on.free().answer, Released)
