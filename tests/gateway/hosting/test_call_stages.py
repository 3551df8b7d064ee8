"""The stages of a call: what is checked before anything is taken, and what waits for the anchor."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinator.engine import GroupEngine, Step
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    InstallAssignmentReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    Request,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    OffsetDeleteReply,
)
from coordinator.interface.volatile_records import Token
from gateway.hosting.answer_times import ANSWER_TIMES_KEPT
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.call_stages import MEMBER_WAIT_MS
from gateway.hosting.calls import Call, LearnTopics, Reserve
from gateway.hosting.effects import AskCoordinator, Forget, Load, Look, Write
from gateway.hosting.inputs import Ending
from gateway.hosting.states import Stage
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.support.hosted_scene import (
    HostedScene,
    cause_of,
    error_of,
)

# -- check first, then act -------------------------------------------------------------------------


def test_a_refused_join_takes_nothing(on: HostedScene) -> None:
    """No anchor, no place, no record, no question to the coordinator."""
    call = on.join("stranger")
    assert error_of(call) is ErrorCode.UNKNOWN_MEMBER_ID
    assert on.count(AskCoordinator) == on.count(Write) == 0
    assert on.group.is_idle


def _call(api: GroupApi, of: Callable[[Token], Request]) -> Callable[[HostedScene], Call]:
    return lambda scene: scene.call(api, lambda token, _topics: of(token))


REFUSED_BY_THE_ENGINE: dict[str, Callable[[HostedScene], Call]] = {
    "JoinGroup": lambda scene: scene.join("stranger", owned={"foo": [0]}),
    "SyncGroup": lambda scene: scene.sync("stranger", 1),
    "Heartbeat": lambda scene: scene.beat("stranger", 1),
    "LeaveGroup": lambda scene: scene.leave("stranger"),
    "ConsumerGroupHeartbeat": lambda scene: scene.native("stranger", 7),
    "ConsumerGroupHeartbeat that joins": lambda scene: scene.native("stranger", regex="("),
    "ConsumerGroupHeartbeat that leaves": lambda scene: scene.native("stranger", -1),
    "OffsetCommit": lambda scene: scene.commit("stranger", 7),
    "OffsetFetch": _call(
        GroupApi.FETCH,
        lambda token: OffsetFetchReceived(
            token=token, member_id="stranger", epoch=7, partitions=None
        ),
    ),
    "PrepareAssignment": _call(
        GroupApi.ASSIGNMENT,
        lambda token: PrepareAssignmentReceived(token=token, member_id="stranger", member_epoch=7),
    ),
    "InstallAssignment": _call(
        GroupApi.ASSIGNMENT,
        lambda token: InstallAssignmentReceived(
            token=token, member_id="stranger", member_epoch=7, group_epoch=7
        ),
    ),
    "DeleteGroups": lambda scene: scene.delete(),
    "OffsetDelete": _call(
        GroupApi.OFFSET_DELETE,
        lambda token: OffsetDeleteReceived(token=token, topic_names=("foo",)),
    ),
}
_REFUSED_BESIDE_MEMBERS = ("OffsetFetch", "DeleteGroups", "OffsetDelete")


@pytest.mark.parametrize(
    ("name", "has_members"),
    [
        *((name, True) for name in REFUSED_BY_THE_ENGINE),
        *((name, False) for name in REFUSED_BY_THE_ENGINE if name not in _REFUSED_BESIDE_MEMBERS),
    ],
)
def test_what_the_engine_refuses_takes_nothing(
    on: HostedScene, name: str, has_members: bool
) -> None:
    """A stranger can cause a look at the cluster, and a look into the log."""
    if has_members:
        on.native_member()
    on.done.clear()
    stored, had_anchor = list(on.records), on.group.anchor.is_here
    call = REFUSED_BY_THE_ENGINE[name](on)
    match call.answer:
        case {} as outcomes:
            (outcome,) = outcomes.values()
            assert outcome.decision.error
        case LeaveGroupReply(members=(left,)):
            assert left.error is ErrorCode.UNKNOWN_MEMBER_ID
        case OffsetDeleteReply(subscribed=subscribed):
            assert subscribed == {"foo"}
        case _:
            assert error_of(call) is not ErrorCode.NONE
    assert {*map(type, on.done)} <= {Reserve, Look, Load, Forget}
    assert not on.pending
    assert (on.records, on.group.anchor.is_here) == (stored, had_anchor)
    assert has_members or on.group.is_idle


def test_a_join_to_a_held_group_is_decided_once(
    on: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The anchor is in its place and the topics are known: a refusal would cost as little."""
    on.native_member()
    handled: list[Event] = []

    def count(engine: GroupEngine, event: Event, **how: Any) -> Step:
        handled.append(event)
        return handle(engine, event, **how)

    handle = GroupEngine.handle
    monkeypatch.setattr(GroupEngine, "handle", count)
    joined = on.native("m")
    assert error_of(joined) is ErrorCode.NONE
    assert [type(event) for event in handled].count(ConsumerHeartbeatReceived) == 1


def test_a_refused_join_needs_no_look_where_one_is_recent(on: HostedScene) -> None:
    """An invalid join in a loop must not cost the cluster anything."""
    on.commit()
    for _ in range(3):
        on.join("stranger")
    assert on.count(Look) == 1


def test_unknown_topics_refuse_a_request(on: HostedScene) -> None:
    """An unreadable name must not look like a deleted topic."""
    on.topics_failure = "nobody answers"
    call = on.native("n", knows_topics=False)
    assert cause_of(call) is RefusalReason.TOPICS_UNKNOWN
    on.topics_failure = ""
    assert error_of(on.native("n", knows_topics=False)) is ErrorCode.NONE


def test_a_refused_request_does_not_learn_topics(live: HostedScene) -> None:
    """A client may name any."""
    call = live.native("stranger", 7, knows_topics=False)
    assert error_of(call) is not ErrorCode.NONE
    assert live.count(LearnTopics) == 0


def test_a_join_learns_its_topics_before_it_waits_for_the_anchor(on: HostedScene) -> None:
    """Calls that wait together would lose their order, and the first member to join leads."""
    on.hold(AskCoordinator)
    calls = [on.native(name, knows_topics=False) for name in ("first", "second")]
    assert [call.stage for call in calls] == [Stage.ADMITTING] * 2
    assert on.count(LearnTopics) == 2
    on.release(AskCoordinator)
    assert [error_of(call) for call in calls] == [ErrorCode.NONE] * 2
    assert on.count(LearnTopics) == 2


# -- the anchor before the first member ------------------------------------------------------------


def test_a_client_gets_its_member_id_while_the_anchor_joins(on: HostedScene) -> None:
    """An id alone admits no client. The client comes back with it, and waits for the anchor
    then."""
    on.hold(AskCoordinator)
    first = on.join()
    assert error_of(first) is ErrorCode.MEMBER_ID_REQUIRED
    assert isinstance(first.answer, JoinGroupReply)
    second = on.join(first.answer.member_id)
    assert second.stage is Stage.ADMITTING
    assert not on.group.is_live
    on.release(AskCoordinator)
    assert on.group.is_live


def test_no_member_id_is_handed_out_once_the_gateway_ends(on: HostedScene) -> None:
    """The client should go to the next gateway."""
    on.feed(Ending())
    assert cause_of(on.join()) is RefusalReason.NOT_ANCHORED


def test_the_initial_delay_runs_while_the_anchor_joins(on: HostedScene) -> None:
    """The cluster parks the anchor's join for an initial delay of its own. The members' group forms
    as soon as in the cluster."""
    delay_ms = on.rules.config.classic_initial_rebalance_delay_ms
    on.hold(AskCoordinator)
    first = on.join().answer
    assert isinstance(first, JoinGroupReply)
    call = on.join(first.member_id)
    on.wait(delay_ms)
    assert call.answer is None
    on.release(AskCoordinator)
    on.wait(100)
    assert error_of(call) is ErrorCode.NONE


# -- the anchor before an answer with partitions ---------------------------------------------------


def test_partitions_are_granted_only_after_a_confirmation(live: HostedScene) -> None:
    """An admin may have removed the anchor a moment ago. Other answers do not wait."""
    live.hold(AskCoordinator)
    beat = live.native("n", 2)
    assert error_of(beat) is ErrorCode.NONE
    full = live.native("n", 2, owned={})
    assert full.stage is Stage.CONFIRMING
    assert live.waits(AskCoordinator) == 1
    live.release(AskCoordinator)
    granted = full.answer
    assert isinstance(granted, ConsumerHeartbeatReply)
    assert granted.assignment


def test_a_removed_anchor_is_repaired_before_partitions_are_granted(live: HostedScene) -> None:
    """The client notices nothing."""
    before = live.in_cluster.member_id
    live.in_cluster.remove_member()
    call = live.native("n", 2, owned={})
    assert error_of(call) is ErrorCode.NONE
    assert live.in_cluster.member_id not in ("", before)


def test_a_grant_without_a_confirmation_is_withheld_after_a_while(live: HostedScene) -> None:
    """The engine repeats it like a lost answer."""
    live.hold(AskCoordinator)
    call = live.native("n", 2, owned={})
    live.wait(MEMBER_WAIT_MS)
    assert cause_of(call) is RefusalReason.NOT_ANCHORED
    live.release(AskCoordinator)
    again = live.native("n", 2, owned={}).answer
    assert isinstance(again, ConsumerHeartbeatReply)
    assert again.assignment


def test_one_heartbeat_confirms_all_grants_that_wait(live: HostedScene) -> None:
    """A thousand members must not cost a thousand."""
    live.hold(AskCoordinator)
    calls = [live.native("n", 2, owned={}) for _ in range(9)]
    beats = live.count_requests(HeartbeatRequest)
    live.release(AskCoordinator)
    assert {error_of(call) for call in calls} == {ErrorCode.NONE}
    assert live.count_requests(HeartbeatRequest) <= beats + 1


def test_the_wait_does_not_grow_with_a_members_requests(live: HostedScene) -> None:
    """Heartbeats wait behind all of them, and a session may be as short as 6 s. The time counts
    from the loss of the group."""
    live.in_cluster.remove_member()
    live.coordinator_failure = "nobody answers"
    live.group.anchor.doubt(
        live.group.anchor.ids(live.now_ms),  # type: ignore[arg-type]
        "a commit",
        ErrorCode.UNKNOWN_MEMBER_ID,
        live.now_ms,
    )
    live.wait(1_000)
    began_ms = live.now_ms
    for _ in range(10):
        call = live.native("n", 2, owned={})
        live.wait_until(lambda call=call: call.answer)  # type: ignore[misc]
        assert cause_of(call) is RefusalReason.NOT_ANCHORED
    assert live.now_ms - began_ms == MEMBER_WAIT_MS - 1_000
    live.coordinator_failure = None
    live.wait(5_000)
    assert error_of(live.native("n", 2, owned={})) is ErrorCode.NONE


# -- the heartbeat interval ------------------------------------------------------------------------


@pytest.mark.parametrize("is_given_up", [False, True])
@pytest.mark.parametrize(("took_ms", "expected_ms"), [(90, 1_000), (300, 3_000), (900, 5_000)])
def test_a_heartbeat_that_takes_long_or_is_given_up_lengthens_the_interval(
    took_ms: int, expected_ms: int, is_given_up: bool
) -> None:
    """At once: librdkafka's timeout is the interval, so the next one would fail, too."""
    config = GroupConfig(lost_commit_hold_ms=None, unsettled_heartbeat_interval_ms=1_000)
    on = HostedScene(config=config)
    on.native_member()
    on.native_member("m")
    assert interval_of(on.native("n", 2)) == 1_000
    on.hold(AskCoordinator)
    slow = on.native("n", 2, owned={})
    on.wait(took_ms)
    if is_given_up:
        on.disconnect(slow)
    on.release(AskCoordinator)
    assert interval_of(on.native("n", 2)) == expected_ms


def test_heartbeats_at_rest_count_among_the_answers_until_slow_ones_are_forgotten() -> None:
    """A group that moves answers most of its members at rest."""
    config = GroupConfig(lost_commit_hold_ms=None, unsettled_heartbeat_interval_ms=1_000)
    on = HostedScene(config=config)
    on.native_member()
    on.native_member("m")
    on.native_member("o")  # within the interval after the second target
    on.group.calls.answer_times.record(200)
    for _ in range(ANSWER_TIMES_KEPT):
        beat = on.native("n", 2)
        assert beat in on.at_rest
        assert interval_of(beat) == 2_000
    assert interval_of(on.native("n", 2)) == 1_000


def interval_of(call: Call) -> int:
    """What a member was told."""
    assert isinstance(call.answer, ConsumerHeartbeatReply)
    return call.answer.heartbeat_interval_ms


@pytest.mark.parametrize("later", [0, ANSWER_TIMES_KEPT])
def test_the_engine_learns_the_longest_of_the_latest_answer_times(later: int) -> None:
    """A slow heartbeat is forgotten after a hundred others, which are too quick to matter."""
    config = GroupConfig(lost_commit_hold_ms=None, unsettled_heartbeat_interval_ms=1_000)
    on = HostedScene(config=config)
    first = on.native("n")
    assert isinstance(first.event, ConsumerHeartbeatReceived)
    assert first.event.answers_within_ms == 0
    first.event = replace(first.event, member_epoch=1)
    for time_ms in (5, 900, *[7] * later):
        on.group.calls._record_time(first, first.asked_ms + time_ms)
    event = on.native("m").event
    assert isinstance(event, ConsumerHeartbeatReceived)
    assert event.answers_within_ms == (0 if later else 900)
