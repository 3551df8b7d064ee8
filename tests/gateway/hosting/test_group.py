"""One group: its release, its limits, a log that fails, and how it begins and ends."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError
from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.replies import JoinGroupReply, SyncGroupReply
from gateway.groups.group_limits import GroupLimits
from gateway.groups.log_health import TRY_AGAIN_MS
from gateway.hosting.answers import RefusalReason
from gateway.hosting.call_stages import MEMBER_WAIT_MS
from gateway.hosting.calls import Abandoned, LearnTopics, Refused, Released, Unanswerable
from gateway.hosting.effects import AskCoordinator, Load, Look, Write
from gateway.hosting.inputs import Damage, Ending, Failed, Leave, Resumed
from gateway.hosting.states import AnchorPhase, LogPhase
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest
from tests.support.broken_engine import break_engine
from tests.support.group_values import read_assignment
from tests.support.hosted_scene import (
    GROUP,
    OURS,
    HostedScene,
    anchored,
    cause_of,
    error_of,
    hosting_rules,
)

# -- releasing -------------------------------------------------------------------------------------


def test_an_empty_group_is_released_for_an_admin(live: HostedScene) -> None:
    """The cluster must see it empty before it changes it."""
    live.native("n", -1)
    call = live.free()
    assert isinstance(call.answer, Released)
    assert live.in_cluster.member_id == ""


def test_an_anchor_of_an_earlier_process_is_taken_to_leave(live: HostedScene) -> None:
    """Admins can manage an empty group even after a gateway was killed."""
    live.native("n", -1)
    again = live.restart()
    assert isinstance(again.free().answer, Released)
    assert again.in_cluster.member_id == ""


def test_an_anchor_that_has_left_is_not_taken_to_leave_again(live: HostedScene) -> None:
    """A recent look saw it, so the cluster is asked once more."""
    live.native("n", -1)
    again = live.restart()
    assert isinstance(again.free().answer, Released)
    joins = again.count_requests(JoinGroupRequest)
    assert isinstance(again.free().answer, Released)
    assert again.count_requests(JoinGroupRequest) == joins
    assert again.count(Look) == 2


def test_releasing_is_limited_in_time(live: HostedScene) -> None:
    """The admin must retry."""
    live.native("n", -1)
    live.hold(AskCoordinator)
    call = live.free()
    live.wait(MEMBER_WAIT_MS)
    assert cause_of(call) is RefusalReason.NOT_ANCHORED
    assert isinstance(call.answer, Refused)
    assert "not left" in call.answer.reason


def test_a_release_lets_waiting_members_in_first(live: HostedScene) -> None:
    """If they had to wait, an admin who repeatedly deletes an empty group would keep all members
    out."""
    live.native("n", -1)
    assert isinstance(live.free().answer, Released)
    live.hold(AskCoordinator)
    joining = live.native("m")
    refused = live.free()
    assert cause_of(refused) is RefusalReason.NOT_ANCHORED
    live.release(AskCoordinator)
    assert error_of(joining) is ErrorCode.NONE
    assert live.group.anchor.phase is AnchorPhase.STABLE


def test_a_group_with_members_is_not_released(live: HostedScene) -> None:
    """Its anchor keeps other clients out."""
    assert cause_of(live.free()) is RefusalReason.NOT_ANCHORED
    assert live.in_cluster.member_id


def test_the_anchor_leaves_a_live_group_at_the_end(live: HostedScene) -> None:
    """Where the state ends with the process, the next gateway may take the group."""
    live.feed(Leave())
    assert live.in_cluster.member_id == ""


# -- limits ----------------------------------------------------------------------------------------


def test_the_number_of_anchors_is_limited() -> None:
    """Clients may name any group. A place is given back when the anchor has left."""
    rules, limits = hosting_rules(linger_ms=1_000), GroupLimits(9)
    limits.anchored.limit(2, ShareRule())
    scenes = [HostedScene(rules, group_id=group_id, limits=limits) for group_id in "abc"]
    for scene in scenes[:2]:
        scene.native_member()
    call = scenes[2].native("n")
    assert isinstance(call.answer, Refused)
    assert (call.answer.cause, call.answer.reason) == (
        RefusalReason.NOT_ANCHORED,
        "the limit of 2 anchored groups is reached",
    )
    assert scenes[2].group.is_idle
    scenes[0].native("n", -1)
    scenes[0].wait(2_000)
    scenes[2].native_member()


def test_no_anchor_beyond_the_limit_joins_for_a_commit_or_an_admin() -> None:
    """An earlier process has left an anchor, whose place both need."""
    limits = GroupLimits(9)
    limits.anchored.limit(0, ShareRule())
    on = HostedScene(limits=limits)
    on.found = anchored(OURS.log_id, OURS.run_id)
    for call in (on.commit(), on.free()):
        assert cause_of(call) is RefusalReason.NOT_ANCHORED
    assert on.count_requests(JoinGroupRequest) == 0


def test_the_number_of_groups_is_limited() -> None:
    """A group that has left memory gives its place back, also after a refusal."""
    limits = GroupLimits(1)
    first, second = (HostedScene(group_id=group_id, limits=limits) for group_id in "ab")
    first.join("stranger")
    first.native_member()
    assert cause_of(second.native("n")) is RefusalReason.TOO_MANY_GROUPS
    assert cause_of(second.beat("n", 1)) is RefusalReason.TOO_MANY_GROUPS
    assert second.count(Load) == 0
    first.native("n", -1)
    second.native_member()


def test_a_group_that_is_resumed_while_a_call_waits_counts_once() -> None:
    """A second place in the limit would never be freed."""
    rules, limits = hosting_rules(can_anchor=False), GroupLimits(1)
    first, second = (HostedScene(rules, group_id=group_id, limits=limits) for group_id in "ab")
    first.hold(LearnTopics)
    first.native("n", 1, owned={}, knows_topics=False)
    first.feed(Resumed())
    first.release(LearnTopics)
    second.native_member()


def test_the_groups_of_one_address_are_limited() -> None:
    """Others may still begin groups."""
    limits = GroupLimits(8, ShareRule(per_address=1))
    first, second = (HostedScene(group_id=group_id, limits=limits) for group_id in "ab")
    assert error_of(first.native("n", owner=QuotaKey("10.0.0.1"))) is ErrorCode.NONE
    assert cause_of(second.native("n", owner=QuotaKey("10.0.0.1"))) is RefusalReason.TOO_MANY_GROUPS
    assert error_of(second.native("n", owner=QuotaKey("10.0.0.2"))) is ErrorCode.NONE
    first.native("n", -1)
    first.wait(100_000)
    third = HostedScene(group_id="c", limits=limits)
    assert error_of(third.native("n", owner=QuotaKey("10.0.0.1"))) is ErrorCode.NONE


def test_a_member_of_a_hosted_group_needs_no_place(live: HostedScene) -> None:
    """The group has one."""
    for number in range(10):
        live.limits.hosted.count_in(f"g{number}", None)
    assert error_of(live.native("m")) is ErrorCode.NONE


# -- a log that fails ------------------------------------------------------------------------------


def test_a_failing_log_begins_no_group_until_it_is_tried_again(on: HostedScene) -> None:
    """The anchor would join for nothing. The attempt waits for its anchor like any other."""
    other = HostedScene(on.rules, group_id="other", limits=on.limits)
    other.native_member()
    other.damage = Damage.NONE
    assert cause_of(other.native("m")) is RefusalReason.LOG_FAILED
    assert cause_of(on.native("n")) is RefusalReason.LOG_FAILED
    assert on.count(AskCoordinator) == 0
    on.wait(TRY_AGAIN_MS)
    on.hold(AskCoordinator)
    call = on.native("n")
    on.wait(100)
    on.release(AskCoordinator)
    assert error_of(call) is ErrorCode.NONE
    assert on.limits.log_health.may_begin(GROUP, on.now_ms)


def test_a_too_large_record_does_not_make_the_log_ill(live: HostedScene) -> None:
    """Other groups begin."""
    live.damage = Damage.REFUSED
    assert cause_of(live.native("m")) is RefusalReason.LOG_FAILED
    assert live.limits.log_health.may_begin(GROUP, live.now_ms)
    assert live.limits.log_health.may_begin(GROUP, live.now_ms)


# -- beginning and ending --------------------------------------------------------------------------


def test_a_group_with_members_in_the_log_resumes(live: HostedScene) -> None:
    """Its timers run before any client has spoken, and its anchor is taken after a look."""
    again = live.restart()
    again.feed(Resumed())
    assert again.group.is_live
    assert again.count(Load) == 1
    again.wait(100_000)
    assert again.events_named("member_fenced") == [{"member_id": "n", "cause": "session_expired"}]
    assert again.group.engine.phase is LogPhase.UNLOADED


def test_nothing_waits_when_the_gateway_shuts_down(on: HostedScene) -> None:
    """The drain waits for the requests in flight, so they must not wait for an anchor."""
    on.hold(AskCoordinator)
    waiting = on.native("n")
    on.feed(Ending())
    assert cause_of(waiting) is RefusalReason.NOT_ANCHORED
    assert cause_of(on.native("late")) is RefusalReason.NOT_ANCHORED


def test_parked_requests_are_answered_when_the_gateway_shuts_down(on: HostedScene) -> None:
    """Their clients find the next gateway."""
    first = on.join().answer
    assert isinstance(first, JoinGroupReply)
    parked = on.join(first.member_id)
    assert parked.answer is None
    on.feed(Ending())
    assert cause_of(parked) is RefusalReason.ENDING


def test_a_request_of_a_client_that_has_gone_is_still_decided(live: HostedScene) -> None:
    """The request may have been a LeaveGroup."""
    live.hold(Write)
    call = live.native("n", -1)
    live.disconnect(call)
    assert isinstance(call.answer, Abandoned)
    live.release(Write)
    assert not live.group.is_live


def test_all_calls_fail_after_a_bug_and_the_group_continues(
    live: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is loaded again, and its anchor joins again."""
    live.hold(Write)
    calls = [live.native("m"), live.join()]
    live.pending.clear()
    live.record(live.group.start_again(live.now_ms))
    live.held.clear()
    live.run()
    assert all(isinstance(call.answer, Unanswerable) for call in calls)
    assert error_of(live.native("n", 2)) is ErrorCode.NONE
    live.wait(1_000)
    assert live.group.anchor.phase is AnchorPhase.STABLE
    break_engine(monkeypatch, JoinGroupReceived, InvariantError("a bug"))
    assert cause_of(live.join()) is RefusalReason.RELOADING


# -- the hosting -----------------------------------------------------------------------------------

HOSTING = ("hosting_started", "group_loaded", "hosting_ended")


def hosting_of(on: HostedScene) -> list[str]:
    """What was reported of the hosting, in order."""
    return [event.name for event in on.events if event.name in HOSTING]


def test_a_hosting_lasts_as_long_as_anything_of_the_group_is_in_memory(live: HostedScene) -> None:
    """A group that comes back is hosted again, and stated as a whole each time."""
    assert hosting_of(live) == ["hosting_started", "group_loaded"]
    assert (
        live.events_named("hosting_started")[0]["anchor_generation"] == live.in_cluster.generation
    )
    live.native("n", -1)
    live.wait(100_000)
    assert hosting_of(live)[2:] == ["hosting_ended"]
    assert live.events_named("hosting_ended") == [{"cause": "forgotten"}]
    live.native("n")
    assert hosting_of(live)[3:] == ["hosting_started", "group_loaded"]


def test_a_loaded_group_is_stated_before_its_first_line(live: HostedScene) -> None:
    """Its members and their partitions are those in the log."""
    again = live.restart()
    again.feed(Resumed())
    assert [event.name for event in again.events[:2]] == ["hosting_started", "group_loaded"]
    (loaded,) = again.events_named("group_loaded")
    assert [member["member_id"] for member in loaded["members"]] == ["n"]
    assert loaded["members"][0]["partitions"] == {"foo": [0, 1, 2]}


def test_a_group_that_is_read_again_is_stated_again(live: HostedScene) -> None:
    """What the log has may differ from what was last told."""
    live.hold(Write)
    live.native("m")
    live.feed(Failed(live.take(Write), Damage.UNSURE))
    assert hosting_of(live) == ["hosting_started", "group_loaded", "group_loaded"]


def test_a_late_leave_removes_no_member_after_the_group_was_read_again(live: HostedScene) -> None:
    """DEV D25: connections outlive the engine, which knew on which one the member has joined."""
    live.native("n", connection=2)
    live.hold(Write)
    live.native("m")
    live.feed(Failed(live.take(Write), Damage.UNSURE))
    live.release(Write)
    assert error_of(live.native("n", -1, connection=1)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert "n" in live.group.engine.members
    assert error_of(live.native("n", -1, connection=2)) is ErrorCode.NONE


def test_a_late_join_grants_nothing_to_a_member_that_has_joined_since() -> None:
    """DEV D5. Its client would not learn of the partition: the answer reaches nobody, and the
    heartbeats of its generation succeed. If it turns back to the connection, it opens another."""
    on = HostedScene(config=GroupConfig(consumer_assignment_interval_ms=0))
    epoch = on.native_member().member_epoch
    named = on.join(connection=1).answer
    assert isinstance(named, JoinGroupReply)
    member_id = named.member_id
    joined = on.join(member_id, connection=2).answer
    assert isinstance(joined, JoinGroupReply)
    on.sync(member_id, joined.generation)
    on.native("n", epoch)
    on.native("n", epoch, owned={"foo": (0, 1)})
    assert on.join(member_id, connection=1).answer == Abandoned()
    assert error_of(on.beat(member_id, joined.generation)) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = on.join(member_id, connection=3).answer
    assert isinstance(rejoined, JoinGroupReply)
    synced = on.sync(member_id, rejoined.generation).answer
    assert isinstance(synced, SyncGroupReply)
    assert read_assignment(synced.assignment) == {"foo": (2,)}


def test_a_late_join_takes_no_instance_from_a_member_that_has_joined_since() -> None:
    """DEV D5. The member would be fenced, and nobody would have its new id. Another process with
    its instance id comes on a newer connection."""
    on = HostedScene()
    joining = on.join(instance_id="i", connection=2)
    on.wait(5_000)
    joined = joining.answer
    assert isinstance(joined, JoinGroupReply)
    on.sync(joined.member_id, joined.generation)
    assert on.join(instance_id="i", connection=1).answer == Abandoned()
    assert error_of(on.beat(joined.member_id, joined.generation)) is ErrorCode.NONE
    replaced = on.join(instance_id="i", connection=3).answer
    assert isinstance(replaced, JoinGroupReply)
    assert replaced.member_id != joined.member_id
