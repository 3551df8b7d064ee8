"""Anchors that an earlier version of groupferry joined: their protocol type is not that of
consumers, and the cluster lets no member change the type of a group unless it is Empty."""

from collections.abc import Mapping

import pytest

from gateway.hosting.anchor import FIRST_BACKOFF_MS, NOT_JOINED
from gateway.hosting.calls import Released
from gateway.hosting.identity import INSTANCE_ID
from gateway.hosting.standing import Verdict
from gateway.hosting.states import AnchorPhase, Mode
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tests.simulation.coordinator import FakeGroup
from tests.support.anchor_stage import AnchorStage
from tests.support.hosted_scene import GROUP, OURS, HostedScene


@pytest.fixture
def on() -> AnchorStage:
    return AnchorStage()


def hold_by_older(on: AnchorStage) -> None:
    """A predecessor's anchor of the older type is in the group."""
    on.coordinator.groups[GROUP] = FakeGroup(
        protocol_type="groupferry",
        protocol="log-1",
        instance_id="groupferry",
        member_id="predecessor",
        generation=7,
        is_synced=True,
    )


def test_an_older_anchor_of_a_group_without_members_leaves_first(on: AnchorStage) -> None:
    """The cluster lets no member change the type of a group unless it is Empty."""
    hold_by_older(on)
    on.anchor.need(on.now_ms)
    on.until_held()
    (leave,) = on.messages(LeaveGroupRequest)
    assert isinstance(leave, LeaveGroupRequest)
    assert [each.member_id for each in leave.members] == ["predecessor"]
    assert on.group.protocol_type == "consumer"


def test_an_older_anchor_stays_while_the_group_has_members(on: AnchorStage) -> None:
    """It is replaced in its type, and by the present type once the members have left."""
    hold_by_older(on)
    on.is_live = True
    ids = on.hold()
    assert (on.group.protocol_type, on.group.instance_id) == ("groupferry", "groupferry")
    assert (ids.instance_id, on.group.member_id) == ("groupferry", ids.member_id)
    on.wait(600_000)
    assert (on.ids, on.messages(LeaveGroupRequest)) == (ids, [])
    on.is_live = False
    on.run()
    assert on.group.protocol_type == "consumer"
    assert on.until_held().instance_id == INSTANCE_ID
    assert on.anchor.loss is None


def test_a_lost_older_anchor_returns_as_what_the_group_allows(on: AnchorStage) -> None:
    """An admin has removed it. The members here are not disturbed."""
    hold_by_older(on)
    on.is_live = True
    ids = on.hold()
    on.group.remove_member()
    on.doubt(ids)
    assert on.until_held() != ids
    assert on.anchor.loss is None


def test_what_an_older_anchor_was_lost_for_is_no_reason_after_it_has_left(on: AnchorStage) -> None:
    """Clients and operators see why the group is not held now."""
    hold_by_older(on)
    on.is_live = True
    ids = on.hold()
    on.group.remove_member()
    on.doubt(ids)
    on.until_held()
    on.is_live, on.is_holding = False, True
    on.run()
    assert (on.anchor.phase, on.anchor.why) == (AnchorPhase.LEAVING, NOT_JOINED)
    on.anchor.answered(on.coordinator.answer(on.take_ask().message), on.now_ms)
    assert (on.anchor.phase, on.anchor.why) == (AnchorPhase.LOST, NOT_JOINED)


def test_an_older_anchor_that_cannot_be_removed_is_no_reason_to_give_up(on: AnchorStage) -> None:
    """The coordinator moved meanwhile."""
    hold_by_older(on)
    on.anchor.need(on.now_ms)
    on.is_holding = True
    on.run()
    on.anchor.answered(on.coordinator.answer(on.take_ask().message), on.now_ms)
    on.now_ms += FIRST_BACKOFF_MS
    on.run()
    on.anchor.looked(Verdict(Mode.HOSTED, older_anchor="predecessor"), on.now_ms)
    on.run()
    assert isinstance(on.take_ask().message, LeaveGroupRequest)
    on.anchor.answered(LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR), on.now_ms)
    assert on.anchor.phase is AnchorPhase.LOST
    on.is_holding = False
    on.until_held()
    assert on.group.protocol_type == "consumer"


def test_a_dropped_older_anchor_does_not_return(on: AnchorStage) -> None:
    """An admin deletes the empty group."""
    hold_by_older(on)
    on.is_live = True
    on.hold()
    on.is_live = False
    on.anchor.drop()
    on.run()
    assert not on.is_here
    assert not on.group.member_id


# -- with the group around it ----------------------------------------------------------------------


def make_older(scene: HostedScene) -> None:
    """The anchor in the cluster is one that an earlier version of groupferry joined."""
    guise, group = OURS.older_guise, scene.in_cluster
    group.protocol_type, group.protocol = guise.protocol_type, guise.protocol
    group.metadata, group.instance_id = guise.metadata, guise.instance_id


def test_an_anchor_of_an_earlier_version_is_taken_to_leave_as_well(live: HostedScene) -> None:
    """An admin's request does not wait for longer than another."""
    live.native("n", -1)
    again = live.restart()
    make_older(again)
    call = again.free()
    again.wait(1_000)
    assert isinstance(call.answer, Released)
    assert again.in_cluster.member_id == ""


def test_members_go_on_under_an_anchor_of_an_earlier_version(live: HostedScene) -> None:
    """Their commits have its ids. Once they have left, the next member finds the present type."""
    again = live.restart()
    make_older(again)
    commit = again.commit("n", 2)
    again.wait(1_000)
    assert isinstance(commit.answer, Mapping)
    (outcome,) = commit.answer.values()
    assert outcome.refused is None
    assert again.in_cluster.protocol_type == "groupferry"
    again.native("n", -1)
    assert again.in_cluster.protocol_type == "consumer"
    again.native_member("m")
    assert again.told("group_taken") == []
