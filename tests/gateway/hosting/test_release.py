"""The steps of a release. `test_group_release.py` has what becomes of requests meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.interface.events import ReleaseMoved
from coordinator.interface.records import ClassicGroupValue, ReleaseRecord, ReleaseState
from gateway.hosting.anchor import SESSION_TIMEOUTS_MS
from gateway.hosting.effects import Ask, Describe
from gateway.hosting.identity import AnchorIds
from gateway.hosting.moving import BACKOFF_MS
from gateway.hosting.release import (
    GATHER_MARGIN_MS,
    GATHER_MAX_MS,
    LOOK_AGAIN_MS,
    NATIVE_FIRST_MAX_MS,
    Releasing,
)
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import ReleaseStage as Stage
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.gateway.hosting.move_parts import move_parts
from tests.support.adoption import GATEWAY, GROUP, JOIN_METADATA, NOW_MS
from tests.support.group_records import given_classic_group_member

A, B = "a", "b"
MEMBERS = tuple(given_classic_group_member(member_id, {"foo": (0,)}) for member_id in (A, B))
VALUE = ClassicGroupValue(
    protocol_type="consumer", generation=41, protocol="range", leader=A, members=MEMBERS
)
NATIVE = replace(MEMBERS[1], protocols=())
MIXED = ReleaseState(group=replace(VALUE, members=(MEMBERS[0], NATIVE)))
IDS = AnchorIds(member_id="anchor-1", generation=5)
JOINED = JoinGroupResponse(generation_id=6, protocol_name=JOIN_METADATA.protocol)


def leave_answer(code: ErrorCode) -> LeaveGroupResponse:
    """The anchor is not in the group any more."""
    member = MemberResponse(
        member_id=IDS.member_id, group_instance_id=IDS.instance_id, error_code=code
    )
    return LeaveGroupResponse(members=(member,))


LEFT, GONE = leave_answer(ErrorCode.NONE), leave_answer(ErrorCode.UNKNOWN_MEMBER_ID)


class Script:
    """One release. `todo` has the effects that wait for an answer."""

    def __init__(self, release: ReleaseState) -> None:
        self.now_ms = NOW_MS
        self.parts = move_parts(GROUP, GATEWAY, ReleaseRecord(value=release))
        self.machine = Releasing(self.parts)
        self.todo: list[Any] = []
        assert self.machine.begin((), self.now_ms) is None
        self.advance()

    @property
    def stage(self) -> Stage:
        return self.machine.stage

    def advance(self) -> None:
        self.machine.advance(self.now_ms)
        self.todo += self.parts.take()

    def wait(self, length_ms: int) -> None:
        self.now_ms += length_ms
        self.advance()

    def see(self, member_id: str) -> None:
        self.machine.recall.holders.mark_seen(member_id, self.now_ms)
        self.advance()

    def give_up(self, *member_ids: str, **how: bool) -> None:
        for member_id in member_ids:
            self.machine.recall.let_go(member_id, **how)
            self.advance()

    def hand_over(self, ids: AnchorIds | None) -> None:
        self.machine.on_handed_over(ids, self.now_ms)
        self.advance()

    @property
    def situation(self) -> GroupSituation:
        return self.machine.situation

    @property
    def is_recalling(self) -> bool:
        return self.situation is GroupSituation.RECALLED

    @property
    def holders(self) -> int:
        """How many members may hold something."""
        assert self.machine.is_ready(commits=0) == (not self.machine.recall.holders)
        assert not self.machine.is_ready(commits=1)
        return len(self.machine.recall.holders)

    def store(self) -> ReleaseState:
        """The log has what it was asked to store."""
        (effect,) = self.todo
        self.todo.clear()
        assert isinstance(effect, ReleaseMoved)
        self.machine.on_stored(effect, is_durable=True, now_ms=self.now_ms)
        self.advance()
        return effect.release

    def next_request(self) -> type[Any]:
        (effect,) = self.todo
        if isinstance(effect, Describe):
            return Describe
        assert isinstance(effect, Ask)
        return type(effect.message)

    def answer(self, answer: Any) -> None:
        assert self.next_request()
        self.machine.on_done(self._end_step(), answer, self.now_ms)
        self.advance()

    def fail(self) -> None:
        assert self.next_request()
        self.machine.on_failed(self._end_step(), "it is gone", self.now_ms)
        self.advance()

    def _end_step(self) -> Any:
        """Take the step out, as the move does when the result is here."""
        step = self.todo.pop()
        self.machine.steps.remove(step)
        return step

    def describe(self, *member_ids: str, client_id: str = "") -> None:
        members = tuple(
            DescribedGroupMember(
                member_id=member_id,
                client_id=client_id,
                client_host="",
                member_metadata=b"",
                member_assignment=b"",
            )
            for member_id in member_ids
        )
        group = DescribedGroup(group_id=GROUP, members=members)
        self.answer(group)

    def to_gathering(self) -> None:
        """Both members come back."""
        self.give_up(A, B)
        self.hand_over(IDS)
        self.store()
        self.answer(JOINED)
        self.answer(SyncGroupResponse())


@pytest.fixture
def on() -> Script:
    """A release that begins."""
    return Script(ReleaseState(group=VALUE))


def test_the_way_of_a_release(on: Script) -> None:
    assert (on.stage, on.situation) == (Stage.RECALLING, GroupSituation.RECALLED)
    on.give_up(A)
    assert on.holders
    on.give_up(B)
    assert not on.holders
    on.hand_over(IDS)
    assert on.store() == ReleaseState(guard_id=IDS.member_id)
    assert on.next_request() is JoinGroupRequest
    on.answer(JOINED)
    assert on.next_request() is SyncGroupRequest
    assert on.is_recalling
    on.answer(SyncGroupResponse())
    assert (on.stage, on.situation) == (Stage.GATHERING, GroupSituation.OPENED)
    on.describe(IDS.member_id, "x")
    on.wait(LOOK_AGAIN_MS)
    on.describe(IDS.member_id, "x", "y")
    assert on.next_request() is LeaveGroupRequest
    on.answer(LEFT)
    assert on.store() == ReleaseState()
    assert on.machine.is_over
    assert on.machine.unowned_ms == LOOK_AGAIN_MS


def test_a_silent_member_is_waited_for_until_its_session_is_over(on: Script) -> None:
    """Until then it may still consume."""
    session_ms = MEMBERS[0].session_timeout_ms
    on.give_up(A)
    on.wait(session_ms - 1)
    assert on.holders
    on.wait(1)
    assert not on.holders


def test_a_member_that_is_heard_gets_its_rebalance_timeout(on: Script) -> None:
    member = MEMBERS[0]
    on.give_up(B)
    longest_ms = max(member.session_timeout_ms, member.rebalance_timeout_ms)
    for _ in range(longest_ms // 1_000 - 1):
        on.wait(1_000)
        on.see(A)
    assert on.holders
    on.wait(1_000)
    assert not on.holders


def test_the_anchor_leaves_though_not_all_have_come_back(on: Script) -> None:
    on.to_gathering()
    on.wait(GATHER_MAX_MS)
    on.describe(IDS.member_id, "x")
    on.wait(LOOK_AGAIN_MS)
    assert on.next_request() is LeaveGroupRequest


def test_it_opens_with_a_shorter_session_and_waits_no_longer_than_that(on: Script) -> None:
    """The anchor sends no heartbeats meanwhile, and the cluster may allow no longer session."""
    on.give_up(A, still_owns=True)
    on.give_up(B)
    on.hand_over(IDS)
    on.store()
    for _ in SESSION_TIMEOUTS_MS[1:]:
        on.answer(JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT))
    on.answer(JOINED)
    on.answer(SyncGroupResponse())
    on.describe(IDS.member_id)
    on.wait(SESSION_TIMEOUTS_MS[-1] - GATHER_MARGIN_MS)
    assert on.stage is Stage.LEAVING


def test_it_waits_for_a_member_that_still_owns_partitions(on: Script) -> None:
    """Others do not count in its place. Its client id tells who has come."""
    on.give_up(A, still_owns=True)
    on.give_up(B)
    on.hand_over(IDS)
    on.store()
    on.answer(JOINED)
    on.answer(SyncGroupResponse())
    on.describe(IDS.member_id, "x", "y", "z")
    on.wait(GATHER_MAX_MS)
    assert on.next_request() is Describe
    on.describe(IDS.member_id, "x", "y", "z", client_id=MEMBERS[0].client_id)
    assert on.next_request() is LeaveGroupRequest


def to_round_of_owner(on: Script, *, is_native_due: bool = False) -> None:
    """Release the group until the anchor has left, and a member that still owns partitions is in a
    round of the cluster's group."""
    on.give_up(A, still_owns=True)
    on.give_up(B)
    if is_native_due:
        on.machine.is_native_due = True
    on.hand_over(IDS)
    on.store()
    on.answer(JOINED)
    on.answer(SyncGroupResponse())
    on.describe(IDS.member_id, "x", "y", client_id=MEMBERS[0].client_id)
    on.answer(LEFT)
    on.answer(described_as("CompletingRebalance"))


@pytest.mark.parametrize("comes", [True, False])
def test_native_members_wait_for_the_round_of_a_member_that_still_owns_partitions(
    on: Script, *, comes: bool
) -> None:
    """Converted before its end, the group would give a native member all partitions."""
    to_round_of_owner(on)
    assert (on.stage, on.situation) == (Stage.AWAITING_ROUND, GroupSituation.OPENED)
    if comes:
        on.wait(LOOK_AGAIN_MS)
        on.answer(described_as("Stable"))
        assert on.situation is GroupSituation.LET_GO
    else:
        on.wait(GATHER_MAX_MS)
    assert on.store() == ReleaseState()


def test_the_wait_for_a_round_ends_before_the_wait_for_a_native_member(on: Script) -> None:
    """If both ended together, the native member, which is to be the first, would wait for
    itself."""
    to_round_of_owner(on, is_native_due=True)
    before = on.situation
    on.wait(GATHER_MAX_MS)
    assert (before, on.situation) == (GroupSituation.OPENED, GroupSituation.NATIVE_FIRST)


def described_as(state: str) -> DescribedGroup:
    """The cluster says that the group is in this state."""
    return DescribedGroup(group_id=GROUP, group_state=state)


def test_it_waits_for_nobody_who_has_left(on: Script) -> None:
    on.give_up(A, B, comes_back=False)
    on.hand_over(IDS)
    on.store()
    on.answer(JOINED)
    on.answer(SyncGroupResponse())
    assert on.next_request() is LeaveGroupRequest


@pytest.mark.parametrize("answer", [GONE, LEFT], ids=["gone", "left"])
def test_a_killed_gateway_has_the_anchor_leave_first(answer: LeaveGroupResponse) -> None:
    """The next process finds that no member holds anything. Joins wait until the anchor has
    left."""
    on = Script(ReleaseState(guard_id=IDS.member_id))
    assert on.is_recalling
    on.answer(answer)
    assert on.store() == ReleaseState()


def test_a_lost_answer_to_the_leave_is_asked_again(on: Script) -> None:
    on.to_gathering()
    on.describe(IDS.member_id, "x", "y")
    on.fail()
    assert on.todo == []
    on.wait(BACKOFF_MS)
    on.answer(GONE)
    assert on.store() == ReleaseState()


@pytest.mark.parametrize("at", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize("how", ["lost", "refused"])
def test_a_group_that_cannot_be_opened_is_left(on: Script, at: type[Any], how: str) -> None:
    """Joins wait until the anchor has left, because its private protocol would refuse them."""
    on.give_up(A, B)
    on.hand_over(IDS)
    on.store()
    if at is SyncGroupRequest:
        on.answer(JOINED)
    if how == "lost":
        on.fail()
        on.wait(BACKOFF_MS)
    elif at is SyncGroupRequest:
        on.answer(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    else:
        on.answer(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert on.next_request() is LeaveGroupRequest
    assert on.is_recalling
    on.answer(LEFT)
    assert not on.is_recalling


def test_with_a_native_member_the_anchor_leaves_without_opening() -> None:
    """A native consumer in a group with an anchor gets an error that is fatal to librdkafka."""
    on = Script(MIXED)
    on.give_up(A, B)
    on.hand_over(IDS)
    on.store()
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
    on.give_up(A)
    on.wait(NATIVE.session_timeout_ms - 1)
    if is_heard:
        on.see(B)
    on.wait(1)
    assert not on.holders
    on.hand_over(IDS)
    assert on.store() == ReleaseState(guard_id=IDS.member_id, is_native_due=is_heard)


@pytest.mark.parametrize("joins", [True, False])
def test_the_conclusion_waits_for_a_native_member(*, joins: bool) -> None:
    """The process after a kill waits for it, too."""
    on = Script(ReleaseState(guard_id=IDS.member_id, is_native_due=True))
    on.answer(LEFT)
    assert (on.stage, on.todo) == (Stage.AWAITING_NATIVE, [])
    if joins:
        on.machine.on_native_joined(on.now_ms)
        on.advance()
    else:
        on.wait(NATIVE_FIRST_MAX_MS - 1)
        assert on.todo == []
        on.wait(1)
    assert on.store() == ReleaseState()
    assert on.machine.is_over


def test_no_native_member_is_due_where_another_member_is() -> None:
    on = Script(MIXED)
    on.give_up(A, B)
    assert on.machine.recall.is_native_due
    on.hand_over(None)
    assert on.store() == ReleaseState()


def test_a_group_that_another_gateway_has_is_released_as_it_is(on: Script) -> None:
    on.give_up(A, B)
    on.hand_over(None)
    assert on.is_recalling
    assert on.store() == ReleaseState()
    assert on.machine.is_over


def test_the_log_is_asked_again_after_a_failure(on: Script) -> None:
    on.give_up(A, B)
    on.hand_over(IDS)
    on.machine.on_stored(on.todo.pop(), is_durable=False, now_ms=on.now_ms)
    on.advance()
    assert on.todo == []
    on.wait(BACKOFF_MS)
    assert on.store() == ReleaseState(guard_id=IDS.member_id)
