"""An adoption that failed gives its group back. The coordinator answers what the test says."""

import pytest

from coordinator.interface.events import AdoptionMoved
from gateway.hosting.adoption import HOLD_MAX_MS
from gateway.hosting.effects import Requester
from gateway.hosting.identity import AnchorIds
from gateway.hosting.moving import BACKOFF_MS
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage as Stage
from gateway.hosting.upstream_member import FIRST_BACKOFF_MS, HEARTBEAT_INTERVAL_MS
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.gateway.hosting.adoption_script import (
    ANCHOR,
    ROUND,
    Script,
    join_refusal,
    join_response,
    leave_response,
)
from tests.support.adoption import JOIN_METADATA, A, B


@pytest.fixture
def script() -> Script:
    return Script()


def given_back(script: Script) -> None:
    """An outsider slipped in after the others had left."""
    script.to_releasing()
    script.answer(Requester.OTHERS, leave_response())
    script.answer(Requester.LEADER, join_response(8, A, "o-1", protocol="range"))


def test_an_outsider_gets_nothing_while_members_may_hold_partitions(script: Script) -> None:
    given_back(script)
    assert script.makes(GroupSituation.RECALLED)
    sync = script.asked[Requester.LEADER]
    assert [assignment.member_id for assignment in sync.assignments] == ["o-1"]
    script.answer(Requester.LEADER, SyncGroupResponse())
    assert script.adopting.guard == AnchorIds(member_id=A, generation=8, instance_id="")
    script.wait(HEARTBEAT_INTERVAL_MS)
    assert isinstance(script.asked[Requester.LEADER], HeartbeatRequest)


def test_the_guard_leads_every_further_round(script: Script) -> None:
    given_back(script)
    script.answer(Requester.LEADER, SyncGroupResponse())
    script.wait(HEARTBEAT_INTERVAL_MS)
    script.answer(Requester.LEADER, ROUND)
    assert script.adopting.guard is None
    script.wait(0)
    assert (
        next(protocol.name for protocol in script.asked[Requester.LEADER].protocols)
        == JOIN_METADATA.protocol
    )


def test_the_guard_pauses_after_a_refused_sync(script: Script) -> None:
    given_back(script)
    script.answer(Requester.LEADER, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert Requester.LEADER not in script.asked
    script.wait(FIRST_BACKOFF_MS)
    assert isinstance(script.asked[Requester.LEADER], JoinGroupRequest)


def test_the_group_is_given_back_when_nobody_holds_anything(script: Script) -> None:
    given_back(script)
    script.answer(Requester.LEADER, SyncGroupResponse())
    script.gave_up_all()
    leave = script.asked[Requester.OTHERS]
    assert [member.member_id for member in leave.members] == [A, B], (
        "an anchor may be somebody else's"
    )
    script.answer(
        Requester.OTHERS,
        leave_response(0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
    )
    assert script.makes(GroupSituation.HELD)
    assert script.took(AdoptionMoved).adoption is None
    script.store()
    assert script.is_at(Stage.UNDONE)


@pytest.mark.parametrize("is_answered", [False, True])
def test_the_log_forgets_it_as_soon_as_the_members_have_left(
    script: Script, *, is_answered: bool
) -> None:
    """Calls are held until then, so a failed JoinGroup of the guard must not delay it."""
    given_back(script)
    script.answer(Requester.LEADER, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    script.wait(FIRST_BACKOFF_MS)
    script.gave_up_all()
    if is_answered:
        script.answer(Requester.LEADER, join_refusal(ErrorCode.NOT_COORDINATOR))
    else:
        script.fail(Requester.LEADER)
    script.answer(Requester.OTHERS, leave_response())
    assert script.took(AdoptionMoved).adoption is None


def test_a_silent_member_is_given_up_when_its_session_is_over(script: Script) -> None:
    given_back(script)
    script.answer(Requester.LEADER, SyncGroupResponse())
    script.give_up(A)
    script.wait(6_000)
    script.see(B)
    script.wait(9_999)
    assert Requester.OTHERS not in script.asked
    script.wait(1)
    assert isinstance(script.asked[Requester.OTHERS], LeaveGroupRequest)


def test_a_guard_that_was_removed_is_not_missed_for_ever(script: Script) -> None:
    given_back(script)
    script.answer(Requester.LEADER, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert script.adopting.guard is None
    script.wait(1_000)
    assert not script.asked
    script.gave_up_all()
    assert isinstance(script.asked[Requester.OTHERS], LeaveGroupRequest)


def test_the_members_are_asked_to_leave_until_there_is_an_answer(script: Script) -> None:
    """This holds also without a guard, whose heartbeats would come in between."""
    given_back(script)
    script.answer(Requester.LEADER, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    script.gave_up_all()
    script.fail(Requester.OTHERS)
    script.wait(BACKOFF_MS)
    assert isinstance(script.asked[Requester.OTHERS], LeaveGroupRequest)


def test_a_member_that_has_gone_is_not_taken_for_the_guard(script: Script) -> None:
    """Its heartbeat was sent before the adoption failed, to see whether the round had begun."""
    script.to_rejoining()
    script.wait(HOLD_MAX_MS)
    script.answer(Requester.OTHERS, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    script.answer(Requester.LEADER, join_response(8))
    assert isinstance(script.asked[Requester.LEADER], SyncGroupRequest)
    script.wait(0)


def test_a_late_answer_about_the_lock_does_not_end_the_undoing(script: Script) -> None:
    """The log stores the lock after the adoption was given up. That has to be erased, too."""
    script.to_locking()
    script.answer(Requester.LEADER, join_response(9))
    script.answer(Requester.LEADER, SyncGroupResponse())
    script.took(AdoptionMoved)
    script.wait(HOLD_MAX_MS)
    script.gave_up_all()
    script.answer(Requester.OTHERS, leave_response())
    assert script.is_at(Stage.FORGETTING)
    script.store()
    assert script.is_at(Stage.FORGETTING)
    assert script.took(AdoptionMoved).adoption is None
    script.store()
    assert script.is_at(Stage.UNDONE)


def test_nobody_leaves_while_the_request_of_the_anchor_is_under_way(script: Script) -> None:
    """The anchor might join after the members have left, and keep them out. The guard continues
    with its heartbeats: the round that the anchor waits for may need its JoinGroup."""
    script.to_anchoring()
    script.fail(Requester.LEADER)
    script.gave_up_all()
    script.wait(HEARTBEAT_INTERVAL_MS)
    assert isinstance(script.asked[Requester.LEADER], HeartbeatRequest)
    assert Requester.OTHERS not in script.asked
    script.answer(Requester.ANCHOR, join_response(10, ANCHOR, member_id=ANCHOR))
    assert [member.member_id for member in script.asked[Requester.OTHERS].members] == [A, B, ""]


def test_an_anchor_that_may_have_joined_leaves_with_the_members(script: Script) -> None:
    script.to_anchoring()
    script.fail(Requester.ANCHOR)
    script.gave_up_all()
    assert [member.member_id for member in script.asked[Requester.OTHERS].members] == [A, B, ""]
