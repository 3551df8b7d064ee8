"""A group that is released: what becomes of the requests of its clients, and how it ends.

`test_release.py` has the steps themselves, `test_release_commits.py` has commits,
`test_release_of_native_members.py` has mixed groups, and `test_release_restarts.py` has restarts.
"""

import pytest

from coordinator.interface.records import ReleaseState
from coordinator.interface.replies import (
    ClaimReply,
)
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.hosting.calls import (
    Abandoned,
    Forwarded,
)
from gateway.hosting.effects import Ask, AskCoordinator, Describe, Load, Write
from gateway.hosting.inputs import (
    Damage,
    Ending,
    Failed,
    MoveRequested,
    Resumed,
)
from gateway.hosting.logged_engine import LOAD_RETRY_MS
from gateway.hosting.move_requests import (
    AdoptRequest,
    ReleaseRequest,
)
from gateway.hosting.release import SETTLE_MAX_MS
from gateway.hosting.states import AnchorPhase, Mode, ReleaseStage
from kafka_codecs.describe_groups import (
    DescribedGroup,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.gateway.hosting.release_scene import (
    CONNECTION,
    SESSION_MS,
    ReleaseScene,
    is_waiting,
    request_release,
    situation_or_none,
    step,
)
from tests.support.hosted_scene import HostedScene, cause_of, error_of


@pytest.fixture
def on() -> ReleaseScene:
    return ReleaseScene()


def test_a_recalled_member_is_told_to_rejoin_and_its_id_is_void(on: ReleaseScene) -> None:
    on.begin()
    assert on.events_named("release_started") == [{"members": 1}]
    assert cause_of(on.beat(on.member_id, on.joined.generation)) is RefusalReason.RECALLED
    owns = on.join(on.member_id, owned={"foo": (0,)}, connection=CONNECTION)
    assert cause_of(owns) is RefusalReason.RECALLED
    assert on.waits(Ask) == 0
    back = on.join(connection=CONNECTION)
    assert on.waits(Ask) == 1
    assert is_waiting(back)
    assert isinstance(on.take(Ask).message, JoinGroupRequest)


def test_a_join_that_came_before_the_anchor_does_not_have_it_leave(on: ReleaseScene) -> None:
    """A new process was asked to release the group before its anchor was there, and the engine
    refuses the join in the step after. The recalled members still have their partitions, and a
    consumer that bypasses the gateway would get them (seed 2026207582)."""
    again = on.restart()
    again.hold(AskCoordinator, Ask, Describe)
    again.feed(Resumed())
    early = again.join(on.member_id)
    again.feed(MoveRequested(ReleaseRequest()))
    again.release(AskCoordinator)
    assert error_of(early) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert again.group.move.stage is ReleaseStage.RECALLING
    assert again.group.anchor.is_here
    assert again.count_requests(LeaveGroupRequest) == 0


def test_a_client_may_return_with_its_partitions(on: ReleaseScene) -> None:
    """franz-go keeps them for its next round, and the first one in the cluster has all members."""
    on.begin()
    owned = {"foo": (0,)}
    on.join(on.member_id, owned=owned, connection=CONNECTION)
    back = on.join(owned=owned, connection=CONNECTION)
    assert is_waiting(back)
    assert on.waits(Ask) == 1


def test_joins_are_relayed_once_the_group_is_open(on: ReleaseScene) -> None:
    on.begin()
    on.join(on.member_id)
    waits = on.join()
    assert is_waiting(waits)
    on.step(JoinGroupResponse(generation_id=9, protocol_name="x"))
    assert is_waiting(waits)
    on.step(SyncGroupResponse())
    assert waits.answer == Forwarded("released")


def test_a_native_join_waits_until_the_anchor_has_left(on: ReleaseScene) -> None:
    """A coordinator tells native consumers next to an anchor that there is no such group, which is
    fatal to them."""
    on.to_gathering()
    group = DescribedGroup(group_id=on.group.group_id, members=())
    while on.waits(Describe):
        step(on, group)
        on.wait_until(lambda: on.waits(Ask) or on.waits(Describe))
    native = on.native("n-1")
    assert is_waiting(native)
    on.step(LeaveGroupResponse())
    assert native.answer == Forwarded("released")


def test_a_held_join_of_a_client_that_has_joined_again_is_not_relayed(on: ReleaseScene) -> None:
    """A held JoinGroup might reach the cluster last, and replace the living static member."""
    on.begin()
    older = on.join(instance_id="one", connection=1)
    newer = on.join(instance_id="one", connection=2)
    assert cause_of(older) is RefusalReason.MOVING
    assert is_waiting(newer)


def test_a_join_that_waits_for_the_release_ends_with_its_connection(on: ReleaseScene) -> None:
    """Relayed later, it could replace a client that has joined since."""
    on.begin()
    waits = on.join()
    on.disconnect(waits)
    assert isinstance(waits.answer, Abandoned)
    on.join(on.member_id)
    on.step(JoinGroupResponse(generation_id=9, protocol_name="x"))
    on.step(SyncGroupResponse())
    assert isinstance(waits.answer, Abandoned)
    assert waits not in on.group.calls.waiting


def test_the_outcome_and_what_the_log_has(on: ReleaseScene) -> None:
    on.to_the_end()
    assert on.outcome is not None
    assert (on.outcome.is_released, on.outcome.reasons) == (True, ())
    assert on.log_has() == ReleaseState()
    (event,) = on.events_named("group_released")
    assert event["unowned_ms"] == on.outcome.unowned_ms
    assert on.events_named("group_forwarded") == [{"reason": "released"}]
    assert on.events_named("hosting_ended") == [{"cause": "released"}]
    assert not on.group.anchor.is_here


def test_a_released_group_stays_with_the_cluster(on: ReleaseScene) -> None:
    """This holds also when the group is empty, and after a restart."""
    on.to_the_end()
    on.in_cluster.remove_member()
    assert on.join().answer == Forwarded("released")
    again = on.restart()
    again.rules.released.add(again.group.group_id)  # as the start reads it
    assert again.join().answer == Forwarded("released")
    assert again.group.routing.decision.mode is Mode.FORWARDED


def test_an_operator_reclaims_an_empty_group(on: ReleaseScene) -> None:
    """Its next join hosts it again."""
    on.to_the_end()
    on.in_cluster.remove_member()
    assert on.claim().answer == ClaimReply()
    assert on.log_has() is None
    first = on.join()
    assert not isinstance(first.answer, Forwarded)


def test_a_group_that_is_being_released_is_not_adopted(on: ReleaseScene) -> None:
    on.begin()
    request = AdoptRequest()
    on.feed(MoveRequested(request))
    assert request.outcome is not None
    assert request.outcome.reasons == ("it is being released: try again",)


def test_a_rebalance_under_way_is_waited_for(on: ReleaseScene) -> None:
    rejoin = on.join(on.member_id, topics=("foo", "bar"))
    assert on.outcome is None
    on.begin()
    on.wait(1_000)
    joined = rejoin.answer
    assert joined is not None
    assert on.log_has() is None
    on.sync(on.member_id, on.joined.generation + 1, {on.member_id: {"foo": (0,)}})
    assert on.log_has() is not None


def test_a_rebalance_without_end_refuses_the_release(on: ReleaseScene) -> None:
    on.join(on.member_id, topics=("foo", "bar"))
    on.begin()
    for number in range(SETTLE_MAX_MS // 1_000):
        on.wait(1_000)
        on.join(on.member_id, topics=("foo", f"bar-{number}"))
    assert on.outcome is not None
    assert on.outcome.reasons == ("its rebalance is not over after 30 s: try again",)
    assert on.group.is_live


def test_a_setting_fences_nobody_and_the_group_is_released_as_by_an_operator(
    on: ReleaseScene,
) -> None:
    after = on.restart(forward=("*",))
    after.hold(Ask, Describe)
    after.feed(Resumed())
    assert situation_or_none(after.beat(on.member_id, on.joined.generation)) is None
    after.wait(SESSION_MS // 2)
    assert situation_or_none(after.beat(on.member_id, on.joined.generation)) is None
    request = request_release(after)
    after.join(on.member_id)
    step(after, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    step(after, LeaveGroupResponse())
    assert request.outcome is not None
    assert request.outcome.is_released
    assert after.group.routing.is_released
    assert after.events_named("group_taken") == []


def test_a_group_that_no_setting_hosts_any_more_stays_hosted_while_it_has_members(
    on: ReleaseScene,
) -> None:
    after = on.restart(host=())
    after.feed(Resumed())
    for _ in range(3):
        assert situation_or_none(after.beat(on.member_id, on.joined.generation)) is None
        after.wait(SESSION_MS // 2)
    assert after.group.is_live
    assert after.group.anchor.phase is AnchorPhase.STABLE


def test_a_log_that_fails_refuses_the_release(on: ReleaseScene) -> None:
    on.damage = Damage.NONE
    on.begin()
    assert on.outcome is not None
    assert on.outcome.reasons == ("the state log failed: try again",)
    assert on.group.is_live


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_uncertain_beginning_is_reported_once_the_log_is_read(
    on: ReleaseScene, *, is_stored: bool
) -> None:
    """The log has not confirmed the write, and may have it. The outcome must be true."""
    on.hold(Write, Load)
    on.begin()
    write = on.take(Write)
    on.records += write.batch.durable if is_stored else ()
    on.load_failure = "the disk is slow"
    on.feed(Failed(write, Damage.UNSURE))
    on.release(Write, Load)
    assert on.outcome is None
    on.load_failure = None
    on.wait(LOAD_RETRY_MS)
    assert (on.release_of.stage is ReleaseStage.RECALLING) is is_stored
    assert on.group.is_live is not is_stored
    outcome = on.request.outcome
    assert (outcome is None) is is_stored
    assert outcome is None or outcome.reasons == ("the state log failed: try again",)


def test_a_gateway_that_is_shutting_down_refuses_the_release(on: ReleaseScene) -> None:
    on.feed(Ending())
    on.begin()
    assert on.outcome is not None
    assert not on.outcome.is_released
    assert any("shutting down" in reason for reason in on.outcome.reasons)


def test_an_empty_group_is_released_at_once() -> None:
    on = HostedScene()
    on.hold(Ask, Describe)
    request = ReleaseRequest()
    on.feed(MoveRequested(request))
    assert request.outcome is not None
    assert request.outcome.is_released
    assert request.outcome.unowned_ms is None, "it has no partitions"
    assert on.group.routing.is_released


def test_an_admin_does_not_drop_the_anchor_meanwhile(on: ReleaseScene) -> None:
    on.begin()
    assert cause_of(on.call(on.free().api, None, is_placed=True)) is RefusalReason.MOVING
    assert on.group.anchor.is_here


def test_the_error_of_a_recalled_heartbeat_is_that_of_a_rebalance() -> None:
    assert code_for(RefusalReason.RECALLED, GroupApi.HEARTBEAT) is ErrorCode.REBALANCE_IN_PROGRESS
