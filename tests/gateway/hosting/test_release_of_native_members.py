"""A release of a group with native members, and late requests on connections that were given up."""

from unittest.mock import ANY

import pytest

from coordinator.interface.records import ReleaseState
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
)
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import (
    Abandoned,
    Forwarded,
)
from gateway.hosting.effects import Ask, Describe, Write
from gateway.hosting.inputs import (
    Done,
    MoveRequested,
)
from gateway.hosting.move_requests import (
    NewProtocol,
    ReleaseRequest,
)
from gateway.hosting.release import NATIVE_FIRST_MAX_MS
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tests.gateway.hosting.release_scene import (
    NATIVE_IS_IN,
    ReleaseScene,
    is_waiting,
    log_has,
    next_process,
    outcome_of,
    request_release,
    step,
)
from tests.support.hosted_scene import HostedScene, cause_of, error_of


@pytest.fixture
def on() -> ReleaseScene:
    return ReleaseScene()


NO_NEW_PROTOCOL = NewProtocol(why_no_natives="the cluster does not have it")


NOT_MIXED = NewProtocol(why_not_mixed="the cluster keeps the two apart")


def test_native_members_are_named_if_the_cluster_takes_none(on: ReleaseScene) -> None:
    on.native_member("n-1")
    on.request.new_protocol = NO_NEW_PROTOCOL
    on.begin()
    assert on.outcome is not None
    assert on.outcome.reasons == (
        "client at 127.0.0.1 (n-1) uses the new protocol, and the cluster does not have it: roll"
        " it back to the classic one first",
    )
    assert on.group.is_live


def test_classic_members_among_native_ones_are_named_if_the_cluster_does_not_mix_them(
    on: ReleaseScene,
) -> None:
    on.native_member("n-1")
    on.request.new_protocol = NOT_MIXED
    on.begin()
    assert on.outcome is not None
    assert on.outcome.reasons == (
        f"client at 127.0.0.1 ({on.member_id}) uses the classic protocol next to native members,"
        " and the cluster keeps the two apart: roll it to the new one first",
    )


def test_a_classic_group_needs_no_new_protocol(on: ReleaseScene) -> None:
    on.request.new_protocol = NO_NEW_PROTOCOL
    on.to_the_end()
    assert on.outcome is not None
    assert on.outcome.is_released


def test_native_members_reconcile_and_rejoin_in_the_cluster() -> None:
    on = HostedScene()
    epoch = on.native_member("n-1").member_epoch
    on.wait(1_000)
    on.hold(Ask, Describe)
    request = ReleaseRequest(new_protocol=NOT_MIXED)
    on.feed(MoveRequested(request))
    reply = on.native("n-1", epoch).answer
    assert isinstance(reply, ConsumerHeartbeatReply)
    assert (reply.member_epoch, reply.assignment) == (epoch, frozenset())
    commit = on.commit("n-1", epoch)
    assert on.sent[-1][1] is not None
    assert commit.answer is not None
    assert cause_of(on.native("n-1", epoch, owned={})) is RefusalReason.FENCED
    back = on.native("n-1", 0)
    assert is_waiting(back)
    ask = on.take(Ask)
    assert isinstance(ask.message, LeaveGroupRequest)
    assert cause_of(on.commit("n-1", epoch)) is RefusalReason.FENCED
    on.feed(Done(ask, LeaveGroupResponse()))
    assert back.answer == Forwarded("released")
    on.feed(NATIVE_IS_IN)
    assert request.outcome is not None
    assert request.outcome.is_released


def test_a_late_join_does_not_give_a_native_members_partitions_to_the_cluster() -> None:
    on = HostedScene()
    epoch = on.native_member("n-1").member_epoch
    on.hold(Ask, Describe)
    on.feed(MoveRequested(ReleaseRequest(new_protocol=NOT_MIXED)))
    assert cause_of(on.native("n-1", 0)) is RefusalReason.FENCED
    on.wait(1_000)
    assert on.waits(Ask) == 0
    reply = on.native("n-1", epoch).answer
    assert isinstance(reply, ConsumerHeartbeatReply)
    assert reply.assignment == frozenset()


def _begin_with_native(*, connection: int) -> HostedScene:
    """A group that is being released, with a native member that has joined on this connection."""
    on = HostedScene()
    on.native("n-1", connection=connection)
    on.wait(1_000)
    on.hold(Ask, Describe)
    on.feed(MoveRequested(ReleaseRequest(new_protocol=NOT_MIXED)))
    return on


def test_two_late_joins_do_not_give_a_native_members_partitions_to_the_cluster() -> None:
    """Both have waited on connections that the client had given up before it joined."""
    on = _begin_with_native(connection=3)
    assert cause_of(on.native("n-1", 0, connection=1)) is RefusalReason.FENCED
    assert cause_of(on.native("n-1", 0, connection=2)) is RefusalReason.FENCED
    assert on.waits(Ask) == 0
    assert cause_of(on.native("n-1", 0, connection=3)) is RefusalReason.FENCED
    assert is_waiting(on.native("n-1", 0, connection=3))
    assert on.waits(Ask) == 1


def test_a_native_member_may_continue_with_an_older_connection() -> None:
    """Each broker has one, and the client has turned to another broker."""
    on = _begin_with_native(connection=3)
    assert isinstance(on.native("n-1", 1, connection=2).answer, ConsumerHeartbeatReply)
    assert cause_of(on.native("n-1", 1, owned={}, connection=2)) is RefusalReason.FENCED
    assert is_waiting(on.native("n-1", 0, connection=2))
    assert on.waits(Ask) == 1


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_late_leave_does_not_give_a_native_members_partitions_to_the_cluster(epoch: int) -> None:
    """The client gave its connection up while an earlier commit there had no answer, and has joined
    again."""
    on = _begin_with_native(connection=2)
    late = on.native("n-1", epoch, connection=1)
    assert error_of(late) is ErrorCode.FENCED_MEMBER_EPOCH
    assert on.waits(Ask) == 0
    assert error_of(on.native("n-1", epoch, connection=2)) is ErrorCode.NONE
    assert on.waits(Ask) == 1


def test_a_late_join_does_not_give_a_classic_members_partitions_to_the_cluster(
    on: ReleaseScene,
) -> None:
    """An eager member states no generation, and owns nothing whenever it joins."""
    rejoined = on.join(on.member_id, connection=2)
    on.wait(5_000)
    joined = rejoined.answer
    assert isinstance(joined, JoinGroupReply)
    on.sync(on.member_id, joined.generation, {on.member_id: {"foo": (0, 1, 2)}})
    on.begin()
    assert on.join(on.member_id, connection=1).answer == Abandoned()
    assert on.waits(Ask) == 0
    assert cause_of(on.join(on.member_id, connection=2)) is RefusalReason.RECALLED
    assert on.waits(Ask) == 1


def test_a_late_join_does_not_give_a_static_members_partitions_to_the_cluster() -> None:
    on = HostedScene()
    joining = on.join(instance_id="i", connection=2)
    on.wait(5_000)
    joined = joining.answer
    assert isinstance(joined, JoinGroupReply)
    on.sync(joined.member_id, joined.generation, {joined.member_id: {"foo": (0, 1, 2)}})
    on.wait(1_000)
    on.hold(Ask, Describe)
    on.feed(MoveRequested(ReleaseRequest()))
    assert on.join(instance_id="i", connection=1).answer == Abandoned()
    assert on.waits(Ask) == 0
    on.join(instance_id="i", connection=3)
    assert on.waits(Ask) == 1


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("comes", [True, False])
def test_the_first_member_in_the_cluster_is_a_native_one(
    on: ReleaseScene, *, comes: bool, is_killed: bool
) -> None:
    """The cluster does not convert a group that librdkafka's cooperative assignor has led. A
    gateway that is killed meanwhile leaves word of that."""
    epoch = on.native_member("n-1").member_epoch
    on.begin()
    on.native("n-1", epoch, owned={})
    on.native("n-1", epoch, owned={})
    on.native("n-1", 0)
    on.wait(4_000)  # the heartbeat has been answered
    on.join(on.member_id)
    assert on.log_has() == ReleaseState(guard_id=ANY, is_native_due=True)
    last = on.restart_after_kill() if is_killed else on
    step(last, LeaveGroupResponse())
    last.wait(1_000)
    classic = last.join()
    assert is_waiting(classic)
    if comes:
        assert last.native("n-1", 0).answer == Forwarded("released")
        assert is_waiting(classic)
        last.feed(NATIVE_IS_IN)
    else:
        last.wait(NATIVE_FIRST_MAX_MS)
        classic = last.join()
    last.wait(1)
    assert isinstance(classic.answer, Forwarded)
    assert last.events_named("group_released")
    assert log_has(last) == ReleaseState()


def test_a_native_member_that_has_left_is_not_waited_for(on: ReleaseScene) -> None:
    epoch = on.native_member("n-1").member_epoch
    on.begin()
    on.native("n-1", -1)
    on.native("n-1", epoch)
    on.join(on.member_id)
    assert on.log_has() == ReleaseState(guard_id=ANY)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_static_member_that_left_temporarily_is_not_waited_for(*, is_killed: bool) -> None:
    """Its client has given up everything, and comes back in the cluster."""
    on = HostedScene()
    on.native("n-1", instance_id="one")
    on.native("n-1", -2, instance_id="one")
    on.hold(Ask, Describe)
    request_release(on)
    last = next_process(on) if is_killed else on
    ask = last.take(Ask)
    assert isinstance(ask.message, LeaveGroupRequest)
    back = last.native("n-2", instance_id="one")
    last.feed(Done(ask, LeaveGroupResponse()))
    assert back.answer == Forwarded("released")


def test_a_native_member_that_joins_meanwhile_is_named_if_the_cluster_takes_none(
    on: ReleaseScene,
) -> None:
    """The engine decides: the member is not in the group yet when the release is ordered."""
    on.hold(Write)
    on.native("n-1")
    on.request.new_protocol = NO_NEW_PROTOCOL
    on.begin()
    assert outcome_of(on.request) is None
    on.release(Write)
    assert on.outcome is not None
    (reason,) = on.outcome.reasons
    assert reason.startswith("client at 127.0.0.1 (n-1) uses the new protocol")
    assert on.log_has() is None
    assert on.group.is_live
