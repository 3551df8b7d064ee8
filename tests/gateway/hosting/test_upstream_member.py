"""A member of a group in the cluster: its stages, and what each error code says about it."""

from typing import Any

import pytest

from gateway.hosting.identity import AnchorIds
from gateway.hosting.upstream_member import (
    ANXIOUS_INTERVAL_MS,
    FIRST_BACKOFF_MS,
    HEARTBEAT_INTERVAL_MS,
    LAST_BACKOFF_MS,
    NOTHING,
    OF_JOINS,
    OF_MEMBERS,
    In,
    Joining,
    Meaning,
    Out,
    Syncing,
    UpstreamMember,
    UpstreamStage,
    refusal_of,
)
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse, MemberResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.gateway.hosting.adoption_script import join_response
from tests.support.adoption import GROUP, JOIN_METADATA, NOW_MS

SESSIONS_MS = (60_000, 30_000)
IDS = AnchorIds(member_id="m-1", generation=8)


class Stage:
    """A member and its clock."""

    def __init__(self, *, is_static: bool = True, repeats_max: int = 0) -> None:
        self.now_ms = NOW_MS
        self.member = UpstreamMember(
            GROUP,
            JOIN_METADATA,
            reason="a test",
            session_timeouts_ms=SESSIONS_MS,
            is_static=is_static,
            repeats_max=repeats_max,
        )

    @property
    def stage(self) -> Any:
        return self.member.stage

    def is_at(self, kind: type[UpstreamStage]) -> bool:
        return isinstance(self.stage, kind)

    def join(self, member_id: str = "", *names: str) -> JoinGroupRequest:
        return self.member.join(self.now_ms, member_id=member_id, names=names)

    def answer(self, answer: Struct) -> Struct | None:
        return self.member.on_answer(answer, self.now_ms)

    def refuse_join(self, code: int) -> Struct | None:
        return self.answer(JoinGroupResponse(error_code=code, member_id="m-1"))

    def enter(self) -> In:
        """Join and sync."""
        self.join("m-1")
        self.answer(join_response(8, member_id="m-1"))
        self.member.sync({"m-1": NOTHING}, self.now_ms)
        self.answer(SyncGroupResponse())
        assert isinstance(self.stage, In)
        return self.stage

    def beat(self, code: int = 0) -> None:
        self.member.beat(self.now_ms)
        self.answer(HeartbeatResponse(error_code=code))


@pytest.fixture
def on() -> Stage:
    return Stage()


# -- joining ---------------------------------------------------------------------------------------


def test_it_offers_the_private_protocol_first_and_no_readable_subscription(on: Stage) -> None:
    """A native consumer would convert the group."""
    join = on.join("", "range", "sticky", "range")
    assert [protocol.name for protocol in join.protocols] == [
        JOIN_METADATA.protocol,
        "range",
        "sticky",
    ]
    assert {protocol.metadata for protocol in join.protocols} == {JOIN_METADATA.metadata}
    assert join.group_instance_id == JOIN_METADATA.instance_id
    assert join.reason, "the broker logs it"


def test_a_dynamic_member_names_no_instance() -> None:
    on = Stage(is_static=False)
    assert on.join("m-1").group_instance_id is None
    on.answer(join_response(8, member_id="m-1"))
    assert on.member.sync({}, on.now_ms).group_instance_id is None
    on.answer(SyncGroupResponse())
    assert on.member.ids == AnchorIds(member_id="m-1", generation=8, instance_id="")
    assert on.member.beat(on.now_ms).group_instance_id is None


def test_a_round_knows_its_other_members(on: Stage) -> None:
    on.join("m-1")
    on.answer(join_response(8, "m-1", "o-1", member_id="m-1"))
    assert (on.stage.leads, on.stage.others, on.stage.is_alone) == (True, ["o-1"], False)
    sync = on.member.sync(dict.fromkeys(on.stage.others, NOTHING), on.now_ms)
    assert [(assignment.member_id, assignment.assignment) for assignment in sync.assignments] == [
        ("o-1", NOTHING)
    ]
    assert decode_assignment(NOTHING)[1].assigned_partitions == ()
    assert on.is_at(Syncing)


def test_a_follower_leads_nothing(on: Stage) -> None:
    on.join("m-1")
    on.answer(join_response(8, member_id="m-1", leader="o-1"))
    assert (on.stage.leads, on.stage.is_alone) == (False, False)


def test_a_leader_that_is_told_no_members_is_not_known_to_be_alone(on: Stage) -> None:
    on.join("m-1")
    on.answer(JoinGroupResponse(generation_id=8, leader="m-1", member_id="m-1"))
    assert (on.stage.leads, on.stage.is_alone) == (True, False)


@pytest.mark.parametrize("changes", [{"skip_assignment": True}, {"leader": "another"}])
def test_a_place_that_was_taken_is_followed_by_a_generation(
    on: Stage, changes: dict[str, Any]
) -> None:
    """An old broker does not store a bare replacement."""
    on.join()
    again = on.answer(join_response(8, member_id="m-2", **changes))
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "m-2"
    assert on.member.joins == 2
    on.answer(join_response(9, member_id="m-2"))
    assert on.stage.since == 8


def test_a_member_id_that_is_required_is_used(on: Stage) -> None:
    on.join()
    again = on.refuse_join(ErrorCode.MEMBER_ID_REQUIRED)
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "m-1"


def test_the_next_session_timeout_is_tried_and_kept(on: Stage) -> None:
    on.join()
    again = on.refuse_join(ErrorCode.INVALID_SESSION_TIMEOUT)
    assert isinstance(again, JoinGroupRequest)
    assert again.session_timeout_ms == again.rebalance_timeout_ms == SESSIONS_MS[1]
    assert on.refuse_join(ErrorCode.INVALID_SESSION_TIMEOUT) is None
    assert on.stage.refusal.meaning is Meaning.UNUSABLE
    assert on.join().session_timeout_ms == SESSIONS_MS[1]


def test_a_join_that_native_consumers_hinder_is_repeated_as_often_as_allowed() -> None:
    on = Stage(repeats_max=1)
    on.join()
    assert on.refuse_join(ErrorCode.REBALANCE_IN_PROGRESS) is not None
    assert on.member.joins == 1, "the first one began no generation"
    assert on.refuse_join(ErrorCode.REBALANCE_IN_PROGRESS) is None
    assert on.stage.refusal.meaning is Meaning.HINDERED


@pytest.mark.parametrize("code", [*OF_JOINS, *OF_MEMBERS, ErrorCode.NOT_COORDINATOR])
def test_a_join_is_refused_for_what_the_code_says(on: Stage, code: int) -> None:
    on.join()
    on.refuse_join(code)
    meaning = {**OF_MEMBERS, **OF_JOINS}.get(code, Meaning.UNUSABLE)
    assert on.is_at(Out)
    assert (on.stage.refusal.meaning, on.stage.refusal.code) == (meaning, code)


def test_refused_joins_are_repeated_later_and_later(on: Stage) -> None:
    """The delay grows until a join has succeeded."""
    pauses = []
    for _ in range(7):
        on.join()
        on.refuse_join(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        pauses.append(on.stage.retry_at_ms - on.now_ms)
    assert pauses == [FIRST_BACKOFF_MS * 2**n for n in range(5)] + [LAST_BACKOFF_MS] * 2
    on.enter()
    on.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    on.join()
    on.refuse_join(ErrorCode.NOT_COORDINATOR)
    assert on.stage.retry_at_ms - on.now_ms == FIRST_BACKOFF_MS


# -- in the group ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", OF_MEMBERS)
def test_a_heartbeat_shows_whether_the_member_is_still_there(on: Stage, code: int) -> None:
    """Gone or called, it may join again now."""
    on.enter()
    on.beat(code)
    assert on.is_at(Out)
    assert on.stage.is_certain is (OF_MEMBERS[code] is Meaning.GONE)
    assert on.stage.retry_at_ms == on.now_ms
    assert on.member.ids is None


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_unusable_answer_costs_the_place_only_after_the_session(
    on: Stage, *, is_lost: bool
) -> None:
    """The session counts from when the last answered request was sent."""
    place = on.enter()
    on.now_ms = place.until_ms - 1

    def fail() -> None:
        on.member.beat(on.now_ms)
        if is_lost:
            on.member.on_no_answer("nobody answers", on.now_ms)
        else:
            on.answer(HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))

    fail()
    assert on.is_at(In)
    assert on.member.ids is None, "not confirmed"
    assert on.member.next_ms() == on.now_ms + ANXIOUS_INTERVAL_MS
    on.now_ms += 1
    fail()
    assert on.is_at(Out)
    assert not on.stage.is_certain


def test_a_refused_sync_is_followed_by_a_pause(on: Stage) -> None:
    """A coordinator whose rounds end before they are complete would be asked without end."""
    on.join("m-1")
    on.answer(join_response(8, member_id="m-1"))
    on.member.sync({"m-1": NOTHING}, on.now_ms)
    on.answer(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert on.member.next_ms() == on.now_ms + FIRST_BACKOFF_MS


def test_a_heartbeat_confirms_from_its_sending_on(on: Stage) -> None:
    on.enter()
    on.member.beat(on.now_ms)
    sent_ms = on.now_ms
    on.now_ms += 5_000
    on.answer(HeartbeatResponse())
    assert on.stage.until_ms == sent_ms + SESSIONS_MS[0]
    assert on.stage.beat_at_ms == on.now_ms + HEARTBEAT_INTERVAL_MS


def test_a_member_that_begins_a_generation_keeps_its_place_until_then() -> None:
    on = Stage(repeats_max=1)
    place = on.enter()
    on.join("m-1", "range")
    assert on.is_at(Joining)
    assert on.stage.place == place
    on.refuse_join(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert on.is_at(In)
    on.join("m-1")
    assert on.refuse_join(ErrorCode.REBALANCE_IN_PROGRESS) is None
    assert on.stage.refusal.meaning is Meaning.CALLED


def test_an_answer_to_a_member_that_was_given_up_means_nothing(on: Stage) -> None:
    """A commit has shown that it is gone while its heartbeat was under way."""
    on.enter()
    on.member.beat(on.now_ms)
    on.member.give_up(refusal_of("a commit", ErrorCode.UNKNOWN_MEMBER_ID), on.now_ms)
    assert on.member.awaits_answer
    assert on.member.next_ms() is None
    on.answer(HeartbeatResponse())
    assert on.is_at(Out)
    assert not on.member.awaits_answer


# -- leaving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "is_certain"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.FENCED_INSTANCE_ID, True),
        (ErrorCode.NOT_COORDINATOR, False),
    ],
)
def test_the_answer_to_a_leave_says_whether_it_has_left(
    on: Stage, code: ErrorCode, *, is_certain: bool
) -> None:
    """Both ids are named, so that one that has taken its place is refused, not removed."""
    on.enter()
    (leaver,) = on.member.leave(IDS).members
    assert (leaver.member_id, leaver.group_instance_id) == ("m-1", JOIN_METADATA.instance_id)
    assert leaver.reason == "a test"
    member = MemberResponse(
        member_id="m-1", group_instance_id=JOIN_METADATA.instance_id, error_code=code
    )
    on.answer(LeaveGroupResponse(members=(member,)))
    assert on.stage.is_certain is is_certain
    is_replaced = on.stage.refusal is not None and on.stage.refusal.is_replaced
    assert is_replaced is (code is ErrorCode.FENCED_INSTANCE_ID)


def test_only_an_answer_to_the_request_under_way_is_taken(on: Stage) -> None:
    on.join()
    with pytest.raises(TypeError):
        on.answer(HeartbeatResponse())
