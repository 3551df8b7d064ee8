"""A release that a later process continues, and anchors that earlier ones have left behind."""

from dataclasses import replace

import pytest

from coordinator.interface.records import ReleaseState
from gateway.hosting.answers import RefusalReason
from gateway.hosting.effects import Ask, AskCoordinator, Describe, Write
from gateway.hosting.inputs import (
    Leave,
    MoveRequested,
    Paused,
    Resumed,
)
from gateway.hosting.lookup_outcome import LookupFailed
from gateway.hosting.move_requests import (
    ReleaseRequest,
)
from gateway.hosting.release import SETTLE_MAX_MS
from gateway.hosting.states import ReleaseStage
from kafka_codecs.describe_groups import (
    DescribedGroup,
)
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.gateway.hosting.release_scene import (
    RECONNECT_MS,
    SESSION_MS,
    ReleaseScene,
    leave,
    log_has,
    next_process,
    outcome_of,
    request_release,
    step,
)
from tests.simulation.coordinator import FakeGroup
from tests.support.hosted_scene import HostedScene, anchored, cause_of


@pytest.fixture
def on() -> ReleaseScene:
    return ReleaseScene()


def test_silent_members_of_an_unattended_group_are_waited_for(on: ReleaseScene) -> None:
    """Another gateway has hosted it: the anchor's place is taken over."""
    again = on.restart_after_kill()
    request = ReleaseRequest(is_unattended=True)
    again.feed(MoveRequested(request))
    again.wait(SESSION_MS - 1)
    assert again.group.anchor.is_here
    assert again.waits(Ask) == 0
    again.wait(1)
    step(again, JoinGroupResponse(generation_id=9, protocol_name="x"))
    step(again, SyncGroupResponse())
    step(again, LeaveGroupResponse())
    assert request.outcome is not None
    assert request.outcome.is_released


def test_an_unattended_release_does_not_take_its_own_waiting_for_a_pause(on: ReleaseScene) -> None:
    """Nothing else looks at the clock of that process, and no client waits for it."""
    again = on.restart_after_kill()
    request = ReleaseRequest(is_unattended=True)
    again.feed(MoveRequested(request))
    again.feed(Paused(again.now_ms + 15_000))
    again.wait(SESSION_MS)
    assert again.waits(Ask) == 1


def test_a_release_continues_when_the_last_session_ends_without_an_anchor(on: ReleaseScene) -> None:
    """A consumer is in the cluster's group by then. Nothing else wakes the release."""
    on.begin()
    on.coordinator.groups[on.group.group_id] = FakeGroup(
        protocol_type="consumer", protocol="range", member_id="outsider", is_synced=True
    )
    again = on.restart_after_kill()
    again.wait(RECONNECT_MS - 1)
    assert not again.group.anchor.is_here
    assert again.events_named("group_released") == []
    again.wait(1)
    assert again.events_named("group_released")


def test_a_release_takes_the_place_of_the_predecessors_anchor_first(on: ReleaseScene) -> None:
    after = next_process(on)
    after.hold(AskCoordinator)
    request = request_release(after)
    assert log_has(after) is None
    assert outcome_of(request) is None
    after.release(AskCoordinator)
    assert log_has(after) is not None
    after.join(on.member_id)
    assert after.waits(Ask) == 1
    assert outcome_of(request) is None
    assert on.in_cluster.metadata == after.rules.gateway.join_metadata.metadata


@pytest.mark.parametrize("is_unattended", [False, True])
def test_an_empty_group_is_released_once_the_predecessors_anchor_has_left(
    on: ReleaseScene, *, is_unattended: bool
) -> None:
    on.leave(on.member_id)
    assert on.in_cluster.member_id
    after = next_process(on)
    request = request_release(after, is_unattended=is_unattended)
    assert after.count_requests(JoinGroupRequest)
    assert outcome_of(request) is None
    leave(after)
    assert request.outcome is not None
    assert request.outcome.is_released
    assert not on.in_cluster.member_id


def test_an_anchor_that_failed_to_leave_is_looked_for(on: ReleaseScene) -> None:
    on.leave(on.member_id)
    on.coordinator_failure = "it is away"
    on.feed(Leave())
    assert "anchor_left_behind" in on.log_names()
    assert not on.group.anchor.is_here
    on.coordinator_failure = None
    on.begin()
    assert outcome_of(on.request) is None
    leave(on)
    assert on.outcome is not None
    assert on.outcome.is_released
    assert not on.in_cluster.member_id


def test_a_bug_after_the_hand_over_leaves_no_anchor_behind(on: ReleaseScene) -> None:
    on.begin()
    on.hold(Write)
    on.join(on.member_id)
    assert not on.group.anchor.is_here
    on.pending.clear()
    on.record(on.group.start_again(on.now_ms))
    on.release(Write)
    on.wait(100)
    on.join(on.member_id)
    assert on.group.move.stage is not None
    assert isinstance(on.take(Ask).message, JoinGroupRequest)
    assert on.log_has() == ReleaseState(guard_id=on.in_cluster.member_id)


def test_a_late_anchor_in_the_place_of_the_released_one_leaves_as_well(on: ReleaseScene) -> None:
    """The coordinator has received a JoinGroup of the anchor after those of the release."""
    on.to_gathering()
    group = DescribedGroup(group_id=on.group.group_id, members=())
    on.step(group)
    on.wait(5_000)
    on.step(group)
    on.wait(100)
    on.in_cluster.member_id = "groupferry-anchor-late"
    leave(on)
    assert on.group.move.stage is ReleaseStage.LEAVING
    leave(on)
    assert on.outcome is not None
    assert on.outcome.is_released
    assert not on.in_cluster.member_id


def test_a_group_with_another_gateways_anchor_is_not_released(on: ReleaseScene) -> None:
    after = next_process(on)
    after.found = anchored("log-2", 0)
    request = request_release(after)
    assert request.outcome is not None
    (reason,) = request.outcome.reasons
    assert "with the state log log-2" in reason
    assert log_has(after) is None


def test_a_release_is_refused_if_the_cluster_does_not_say_who_is_in_the_group() -> None:
    on = HostedScene()
    on.found = LookupFailed("it is away")
    request = request_release(on)
    on.wait(SETTLE_MAX_MS - 1)
    assert outcome_of(request) is None
    on.wait(1)
    assert request.outcome is not None
    assert request.outcome.reasons == ("the cluster does not say who is in the group: try again",)


def test_an_anchor_that_a_failover_brings_back_leaves_again(on: ReleaseScene) -> None:
    """An old coordinator answers LeaveGroup before that is durable."""
    before = replace(on.in_cluster)
    on.to_the_end()
    on.coordinator.groups[on.group.group_id] = before
    decision = on.group.routing.take(on.coordinator.look(on.group.group_id), on.now_ms)
    assert decision.has_anchor
    again = request_release(on)
    assert again.outcome is not None
    assert again.outcome.is_released
    assert not on.in_cluster.member_id
    assert on.log_has() == ReleaseState()


def test_a_killed_gateway_recalls_the_members_again(on: ReleaseScene) -> None:
    """Its anchor is taken over first: commits need it."""
    on.begin()
    again = on.restart()
    again.hold(Ask, Describe)
    again.feed(Resumed(is_moving=True))
    call = again.beat(on.member_id, on.joined.generation)
    again.wait(100)
    assert cause_of(call) is RefusalReason.RECALLED
    assert again.group.anchor.is_here
    assert "release_resumed" in again.log_names()
    again.join(on.member_id)
    again.wait(100)
    assert again.waits(Ask) == 1


def test_a_gateway_that_was_killed_after_the_hand_over_takes_no_anchor_again(
    on: ReleaseScene,
) -> None:
    """An anchor that stays would keep out the members, which may be back in the cluster already."""
    on.begin()
    on.join(on.member_id)
    assert on.log_has() == ReleaseState(guard_id=on.in_cluster.member_id)
    again = on.restart_after_kill()
    again.wait(1_000)
    assert again.count_requests(JoinGroupRequest) == 0
    assert not again.group.anchor.is_here
    leave = again.take(Ask).message
    assert isinstance(leave, LeaveGroupRequest)
    (anchor,) = leave.members
    there = on.in_cluster
    assert (anchor.member_id, anchor.group_instance_id) == (there.member_id, there.instance_id)
