"""The steps of a release. `test_release_strategy.py` has what becomes of requests meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.interface.events import ReleaseMoved
from coordinator.interface.records import ClassicGroupValue, ReleaseState
from gateway.hosting.adoption_requests import BACKOFF_MS
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    GaveUp,
    Heard,
    Lane,
    MoveTimerFired,
    Stored,
    StoreFailed,
    Unanswered,
)
from gateway.hosting.grace import Grace
from gateway.hosting.identity import AnchorIds
from gateway.hosting.release import (
    GATHER_MAX_MS,
    LOOK_AGAIN_MS,
    NATIVE_FIRST_MAX_MS,
    Releasing,
)
from gateway.hosting.release_steps import HandedOver, NativeJoined
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import ReleaseStage as Stage
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.adoption import GROUP, GUISE, NOW_MS
from tests.support.group_records import given_classic_group_member

A, B = "a", "b"
MEMBERS = tuple(given_classic_group_member(each, {"foo": (0,)}) for each in (A, B))
VALUE = ClassicGroupValue(
    protocol_type="consumer", generation=41, protocol="range", leader=A, members=MEMBERS
)
NATIVE = replace(MEMBERS[1], protocols=())
MIXED = ReleaseState(group=replace(VALUE, members=(MEMBERS[0], NATIVE)))
IDS = AnchorIds(member_id="anchor-1", generation=5)
JOINED = JoinGroupResponse(generation_id=6, protocol_name=GUISE.protocol)


def left(code: ErrorCode) -> LeaveGroupResponse:
    """The anchor is not in the group any more."""
    member = MemberResponse(
        member_id=IDS.member_id, group_instance_id=IDS.instance_id, error_code=code
    )
    return LeaveGroupResponse(members=(member,))


LEFT, GONE = left(ErrorCode.NONE), left(ErrorCode.UNKNOWN_MEMBER_ID)


class Script:
    """One release. `todo` has the effects that wait for an answer."""

    def __init__(self, release: ReleaseState) -> None:
        self.now_ms = NOW_MS
        self.machine = Releasing(GROUP, GUISE, release, NOW_MS, Grace())
        self.todo: list[Any] = []
        self.feed(MoveTimerFired())

    @property
    def stage(self) -> Stage:
        return self.machine.stage

    def feed(self, event: Any) -> None:
        self.todo += self.machine.handle(event, self.now_ms)

    def wait(self, length_ms: int) -> None:
        self.now_ms += length_ms
        self.feed(MoveTimerFired())

    @property
    def situation(self) -> GroupSituation:
        return self.machine.situation

    @property
    def is_recalling(self) -> bool:
        return self.situation is GroupSituation.RECALLED

    @property
    def holders(self) -> int:
        """How many members may hold something."""
        assert self.machine.is_ready(commits=0) == (not self.machine.holders)
        assert not self.machine.is_ready(commits=1)
        return len(self.machine.holders)

    def stored(self) -> ReleaseState:
        """The log has what it was asked to store."""
        (effect,) = self.todo
        self.todo.clear()
        assert isinstance(effect, ReleaseMoved)
        self.feed(Stored())
        return effect.release

    def asked(self) -> type[Any]:
        (effect,) = self.todo
        assert isinstance(effect, Ask)
        return type(effect.message)

    def answer(self, answer: Any) -> None:
        assert self.asked()
        self.todo.clear()
        self.feed(Answered(Lane.RELEASE, answer))

    def fail(self) -> None:
        assert self.asked()
        self.todo.clear()
        self.feed(Unanswered(Lane.RELEASE, "it is gone"))

    def describe(self, *member_ids: str, client_id: str = "") -> None:
        members = tuple(
            DescribedGroupMember(
                member_id=each,
                client_id=client_id,
                client_host="",
                member_metadata=b"",
                member_assignment=b"",
            )
            for each in member_ids
        )
        group = DescribedGroup(group_id=GROUP, members=members)
        self.answer(DescribeGroupsResponse(groups=(group,)))

    def to_gathering(self) -> None:
        """Both members come back."""
        self.feed(GaveUp(A))
        self.feed(GaveUp(B))
        self.feed(HandedOver(IDS))
        self.stored()
        self.answer(JOINED)
        self.answer(SyncGroupResponse())


@pytest.fixture
def on() -> Script:
    """A release that begins."""
    return Script(ReleaseState(group=VALUE))


def test_the_way_of_a_release(on: Script) -> None:
    assert (on.stage, on.situation) == (Stage.RECALLING, GroupSituation.RECALLED)
    on.feed(GaveUp(A))
    assert on.holders
    on.feed(GaveUp(B))
    assert not on.holders
    on.feed(HandedOver(IDS))
    assert on.stored() == ReleaseState(guard_id=IDS.member_id)
    assert on.asked() is JoinGroupRequest
    on.answer(JOINED)
    assert on.asked() is SyncGroupRequest
    assert on.is_recalling
    on.answer(SyncGroupResponse())
    assert (on.stage, on.situation) == (Stage.GATHERING, GroupSituation.OPENED)
    on.describe(IDS.member_id, "x")
    on.wait(LOOK_AGAIN_MS)
    on.describe(IDS.member_id, "x", "y")
    assert on.asked() is LeaveGroupRequest
    on.answer(LEFT)
    assert on.stored() == ReleaseState()
    assert on.machine.is_over
    assert on.machine.unowned_ms == LOOK_AGAIN_MS


def test_a_silent_member_is_waited_for_until_its_session_is_over(on: Script) -> None:
    """Until then it may still consume."""
    session_ms = MEMBERS[0].session_timeout_ms
    on.feed(GaveUp(A))
    on.wait(session_ms - 1)
    assert on.holders
    on.wait(1)
    assert not on.holders


def test_a_member_that_is_heard_gets_its_rebalance_timeout(on: Script) -> None:
    member = MEMBERS[0]
    on.feed(GaveUp(B))
    longest_ms = max(member.session_timeout_ms, member.rebalance_timeout_ms)
    for _ in range(longest_ms // 1_000 - 1):
        on.wait(1_000)
        on.feed(Heard(A))
    assert on.holders
    on.wait(1_000)
    assert not on.holders


def test_the_anchor_leaves_though_not_all_have_come_back(on: Script) -> None:
    on.to_gathering()
    on.wait(GATHER_MAX_MS)
    on.describe(IDS.member_id, "x")
    on.wait(LOOK_AGAIN_MS)
    assert on.asked() is LeaveGroupRequest


def test_it_waits_for_a_member_that_still_owns_partitions(on: Script) -> None:
    """Others do not count in its place. Its client id tells who has come."""
    on.feed(GaveUp(A, still_owns=True))
    on.feed(GaveUp(B))
    on.feed(HandedOver(IDS))
    on.stored()
    on.answer(JOINED)
    on.answer(SyncGroupResponse())
    on.describe(IDS.member_id, "x", "y", "z")
    on.wait(GATHER_MAX_MS)
    assert on.asked() is DescribeGroupsRequest
    on.describe(IDS.member_id, "x", "y", "z", client_id=MEMBERS[0].client_id)
    assert on.asked() is LeaveGroupRequest


def test_it_waits_for_nobody_who_has_left(on: Script) -> None:
    on.feed(GaveUp(A, comes_back=False))
    on.feed(GaveUp(B, comes_back=False))
    on.feed(HandedOver(IDS))
    on.stored()
    on.answer(JOINED)
    on.answer(SyncGroupResponse())
    assert on.asked() is LeaveGroupRequest


@pytest.mark.parametrize("answer", [GONE, LEFT], ids=["gone", "left"])
def test_a_killed_gateway_has_the_anchor_leave_first(answer: LeaveGroupResponse) -> None:
    """The next process finds that nobody holds anything. Joins wait until the anchor has left."""
    on = Script(ReleaseState(guard_id=IDS.member_id))
    assert on.is_recalling
    on.answer(answer)
    assert on.stored() == ReleaseState()


def test_a_lost_answer_to_the_leave_is_asked_again(on: Script) -> None:
    on.to_gathering()
    on.describe(IDS.member_id, "x", "y")
    on.fail()
    assert on.todo == []
    on.wait(BACKOFF_MS)
    on.answer(GONE)
    assert on.stored() == ReleaseState()


@pytest.mark.parametrize("at", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize("how", ["lost", "refused"])
def test_a_group_that_cannot_be_opened_is_left(on: Script, at: type[Any], how: str) -> None:
    """Joins wait until the anchor has left, because its private protocol would refuse them."""
    on.feed(GaveUp(A))
    on.feed(GaveUp(B))
    on.feed(HandedOver(IDS))
    on.stored()
    if at is SyncGroupRequest:
        on.answer(JOINED)
    if how == "lost":
        on.fail()
        on.wait(BACKOFF_MS)
    elif at is SyncGroupRequest:
        on.answer(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    else:
        on.answer(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert on.asked() is LeaveGroupRequest
    assert on.is_recalling
    on.answer(LEFT)
    assert not on.is_recalling


def test_with_a_native_member_the_anchor_leaves_without_opening() -> None:
    """A native consumer beside an anchor gets an error that is fatal to librdkafka."""
    on = Script(MIXED)
    on.feed(GaveUp(A))
    on.feed(GaveUp(B))
    on.feed(HandedOver(IDS))
    on.stored()
    assert on.stage is Stage.LEAVING
    assert on.is_recalling
    on.answer(LEFT)
    assert on.situation in (GroupSituation.LET_GO, GroupSituation.NATIVE_FIRST)


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_native_member_that_does_not_rejoin_in_time_is_due_if_it_is_heard(
    *, is_heard: bool
) -> None:
    """The cluster will fence it, and it comes back."""
    on = Script(MIXED)
    on.feed(GaveUp(A))
    on.wait(NATIVE.session_timeout_ms - 1)
    if is_heard:
        on.feed(Heard(B))
    on.wait(1)
    assert not on.holders
    on.feed(HandedOver(IDS))
    assert on.stored() == ReleaseState(guard_id=IDS.member_id, is_native_due=is_heard)


@pytest.mark.parametrize("joins", [True, False])
def test_the_conclusion_waits_for_a_native_member(*, joins: bool) -> None:
    """So the process after a kill waits for it, too."""
    on = Script(ReleaseState(guard_id=IDS.member_id, is_native_due=True))
    on.answer(LEFT)
    assert (on.stage, on.todo) == (Stage.CONCLUDING, [])
    if joins:
        on.feed(NativeJoined())
    else:
        on.wait(NATIVE_FIRST_MAX_MS - 1)
        assert on.todo == []
        on.wait(1)
    assert on.stored() == ReleaseState()
    assert on.machine.is_over


def test_no_native_member_is_due_where_somebody_else_is() -> None:
    on = Script(MIXED)
    on.feed(GaveUp(A))
    on.feed(GaveUp(B))
    assert on.machine.is_native_due
    on.feed(HandedOver(None))
    assert on.stored() == ReleaseState()


def test_a_group_that_somebody_else_has_is_released_as_it_is(on: Script) -> None:
    on.feed(GaveUp(A))
    on.feed(GaveUp(B))
    on.feed(HandedOver(None))
    assert on.is_recalling
    assert on.stored() == ReleaseState()
    assert on.machine.is_over


def test_the_log_is_asked_again_after_a_failure(on: Script) -> None:
    on.feed(GaveUp(A))
    on.feed(GaveUp(B))
    on.feed(HandedOver(IDS))
    on.todo.clear()
    on.feed(StoreFailed("it is full"))
    assert on.todo == []
    on.wait(BACKOFF_MS)
    assert on.stored() == ReleaseState(guard_id=IDS.member_id)
