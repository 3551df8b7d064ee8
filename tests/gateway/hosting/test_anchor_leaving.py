"""One anchor leaves its group, or must first see stray commits end."""

import pytest

from gateway.hosting.states import AnchorPhase, Mode
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.sync_group import SyncGroupRequest
from tests.gateway.hosting.anchor_stage import AnchorStage


@pytest.fixture
def on() -> AnchorStage:
    return AnchorStage()


# -- commits whose answer was lost -----------------------------------------------------------------


def test_a_lost_commit_ends_when_the_anchor_is_replaced(on: AnchorStage) -> None:
    """The new anchor must be Stable, because a coordinator that fails over earlier would restore
    the old one."""
    ids = on.hold()
    on.is_holding = True
    on.lose_commit(ids)
    on.run()
    on.anchor.on_answer(on.coordinator.answer(on.take_ask().message), on.now_ms)
    on.anchor.on_answer(on.coordinator.answer(on.take_ask().message), on.now_ms)
    sync = on.take_ask().message
    assert isinstance(sync, SyncGroupRequest)
    assert on.group.member_id != ids.member_id
    on.run()
    assert on.ended == []
    on.anchor.on_answer(on.coordinator.answer(sync), on.now_ms)
    on.run()
    assert on.ended == [5]
    assert on.ids is not None
    assert on.ids.member_id != ids.member_id


def test_a_commit_lost_under_an_earlier_member_id_ends_at_once(on: AnchorStage) -> None:
    """Its client noticed late, and the replacement has already happened."""
    ids = on.hold()
    on.group.remove_member()
    on.doubt(ids)
    on.until_held()
    joins = len(on.messages(JoinGroupRequest))
    on.lose_commit(ids)
    assert on.ended == [5]
    on.wait(1_000)
    assert len(on.messages(JoinGroupRequest)) == joins


def test_a_lost_commit_without_a_member_ends_when_the_group_is_held() -> None:
    """A consumer that uses assign() died during its commit to a group without an anchor. Once the
    anchor has joined, the cluster refuses the commit. Without an anchor nothing would reveal its
    end."""
    on = AnchorStage(linger_ms=1_000)
    on.lose_commit(None)
    assert on.ended == []
    on.until_held()
    assert on.ended == [5]
    on.wait(10_000)
    assert not on.is_here


def test_a_lost_commit_keeps_the_anchor_in_the_group() -> None:
    """The group is empty, and the coordinator is down for long."""
    on = AnchorStage(linger_ms=1_000)
    ids = on.hold()
    on.failure = "nobody answers"
    on.lose_commit(ids)
    on.wait(300_000)
    assert on.ended == []
    assert on.is_here
    on.failure = None
    on.wait(10_000)
    assert on.ended == [5]


def test_the_wait_behind_a_lost_commit_counts_from_its_sending(on: AnchorStage) -> None:
    """The member's other requests have waited since then."""
    ids, sent_ms = on.hold(), on.now_ms
    on.now_ms += 2_000
    on.lose_commit(ids, sent_ms)
    assert on.anchor.lost_for_ms(on.now_ms) == 2_000


def test_a_lost_commit_ends_when_another_member_holds_the_group(on: AnchorStage) -> None:
    """The cluster refuses the old ids by then, and the gateway fences its own members."""
    ids = on.hold()
    on.group.member_id = "groupferry-anchor-newer"
    on.mode = Mode.FORWARDED
    on.doubt(ids, ErrorCode.FENCED_INSTANCE_ID)
    on.lose_commit(ids)
    on.wait(1_000)
    assert on.ended == [5]


def test_a_lost_commit_ends_when_the_anchor_has_left() -> None:
    """Its member id is gone for good."""
    on = AnchorStage(linger_ms=60_000)
    ids = on.hold()
    on.is_holding = True
    on.anchor.drop()
    on.run()
    leave = on.take_ask().message
    assert isinstance(leave, LeaveGroupRequest)
    on.lose_commit(ids)
    on.run()
    assert on.ended == []
    on.anchor.on_answer(on.coordinator.answer(leave), on.now_ms)
    on.run()
    assert on.ended == [5]


def test_an_anchor_that_failed_to_leave_rejoins_for_a_lost_commit() -> None:
    """The anchor may still be in the group, so the commit may still be stored."""
    on = AnchorStage(linger_ms=60_000)
    ids = on.hold()
    on.is_holding = True
    on.anchor.drop()
    on.run()
    on.take_ask()
    on.lose_commit(ids)
    on.anchor.on_failure("nobody answers", on.now_ms)
    assert on.anchor.phase is AnchorPhase.LOST
    on.is_holding = False
    on.wait(10_000)
    assert on.ended == [5]
    assert not on.is_here


# -- leaving ---------------------------------------------------------------------------------------


def test_the_anchor_lingers_after_the_last_member() -> None:
    """A restarting consumer still finds it. It leaves in the end."""
    on = AnchorStage(linger_ms=60_000)
    on.is_live = True
    on.hold()
    on.wait(600_000)
    assert on.anchor.phase is AnchorPhase.STABLE
    on.is_live = False
    on.wait(50_000)
    assert on.messages(LeaveGroupRequest) == []
    on.wait(20_000)
    assert len(on.messages(LeaveGroupRequest)) == 1
    assert on.group.member_id == ""
    assert not on.is_here
    assert on.log_names()[-1] == "anchor_left"


def test_a_dropped_anchor_leaves_at_once(on: AnchorStage) -> None:
    """An admin deletes the group, so the cluster must see it empty."""
    on.hold()
    on.anchor.drop()
    on.run()
    assert on.group.member_id == ""
    assert on.anchor.phase is AnchorPhase.ABSENT


def test_a_dropped_anchor_first_takes_a_place_left_behind(on: AnchorStage) -> None:
    """An earlier gateway left it, or the anchor could not leave while the coordinator was down."""
    on.hold()
    successor = AnchorStage()
    successor.coordinator = on.coordinator
    successor.anchor.need(successor.now_ms)
    successor.anchor.drop()
    successor.run()
    assert on.group.member_id == ""
    assert not successor.is_here


def test_dropping_an_absent_anchor_does_not_make_the_next_one_leave(on: AnchorStage) -> None:
    """A gateway that shuts down drops the anchors of all groups."""
    on.anchor.drop()
    on.hold()
    on.run()
    assert on.messages(LeaveGroupRequest) == []


def test_an_anchor_that_was_removed_before_it_left_has_left(on: AnchorStage) -> None:
    """An admin was faster."""
    on.hold()
    on.group.remove_member()
    on.anchor.drop()
    on.run()
    assert not on.is_here
    assert on.log_names() == ["anchor_taken", "anchor_left"]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_the_group_is_free_of_anchors_unless_a_late_join_has_put_another_one_there(
    on: AnchorStage, *, is_replaced: bool
) -> None:
    """A release that believed otherwise would leave that one in the consumers' way."""
    on.hold()
    if is_replaced:
        on.group.member_id = "groupferry-anchor-newer"
    on.anchor.drop()
    on.run()
    assert not on.is_here
    assert on.anchor.is_known_absent == (not is_replaced)


def test_an_anchor_without_stray_commits_need_not_leave_for_sure(on: AnchorStage) -> None:
    """Its session ends without it. A warning says so."""
    on.hold()
    on.failure = "nobody answers"
    on.anchor.drop()
    on.run()
    assert not on.is_here
    assert on.log_names()[-1] == "anchor_left_behind"


def test_a_leaving_anchor_returns_for_a_new_member() -> None:
    """The anchor left at the last moment. It is needed again, and joins again."""
    on = AnchorStage(linger_ms=1_000)
    before = on.hold()
    on.wait(2_000)
    assert not on.is_here
    assert on.hold() != before


def test_an_anchor_that_is_no_longer_needed_stops_trying() -> None:
    """The coordinator was down all the time."""
    on = AnchorStage(linger_ms=5_000)
    on.failure = "nobody answers"
    on.anchor.need(on.now_ms)
    on.wait(4_000)
    assert on.anchor.phase is AnchorPhase.LOST
    on.wait(5_000)
    assert not on.is_here
    assert on.anchor.next_ms(is_live=False) is None


def test_an_anchor_joins_again_after_a_bug(on: AnchorStage) -> None:
    """No lost commit is forgotten."""
    ids = on.hold()
    on.is_holding = True
    on.lose_commit(ids)
    on.run()
    on.effects.clear()
    on.anchor.start_again(on.now_ms)
    on.is_holding = False
    on.wait(1_000)
    assert on.ids is not None
    assert on.ended == [5]
