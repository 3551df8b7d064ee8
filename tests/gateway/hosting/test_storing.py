"""A group's commits: checked by the engine, stored by the cluster, and none is forgotten before it
has certainly ended."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.engine import GroupEngine, Step
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError, LongComputation
from coordinator.interface.events import (
    Event,
    GroupLost,
    JoinGroupReceived,
    OffsetCommitEnded,
    SyncGroupReceived,
)
from coordinator.interface.replies import ConsumerHeartbeatReply
from gateway.hosting.anchor import ABOUT_THE_ANCHOR
from gateway.hosting.answers import RefusalReason
from gateway.hosting.call_stages import MEMBER_WAIT_MS, CallStages
from gateway.hosting.calls import (
    AWAY,
    LOST,
    Call,
    Commits,
    LearnTopics,
    Outcome,
    ProbeBroker,
    Refused,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.effects import AskCoordinator, Compute, Load, Write
from gateway.hosting.inputs import Done, EngineEvent, Gone, SeenForeign
from gateway.hosting.states import AnchorPhase, CommitPhase, LogPhase
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest
from tests.gateway.hosting.scene_commits import (
    OK,
    commit_answer,
    ids_of,
    in_flight,
    member_commit,
    outcomes,
    pending_action_of,
    phases,
    tokens,
)
from tests.simulation.coordinator import FakeGroup
from tests.support.broken_engine import break_engine
from tests.support.hosted_scene import HostedScene, error_of

DISPLACED = frozenset({int(ErrorCode.UNKNOWN_MEMBER_ID)})
ALL = {"foo": (0, 1, 2)}


@pytest.fixture
def on(live: HostedScene) -> HostedScene:
    """A group with one native member, which has all partitions."""
    return live


# -- the way to the cluster ------------------------------------------------------------------------


def test_a_members_commit_travels_under_the_anchors_ids(on: HostedScene) -> None:
    """The cluster fences a gateway that lost the group."""
    call = member_commit(on)
    assert on.sent == [(tokens(call)[0], ids_of(on))]
    assert phases(call) == [CommitPhase.ENDED]
    assert not outcomes(call)[0].is_away
    assert in_flight(on) == set()


def test_commits_that_arrive_together_are_sent_together_in_order(on: HostedScene) -> None:
    """If they were sent one by one, later requests of the client would wait for a round trip per
    commit."""
    on.hold(StoreCommits)
    call = member_commit(on, 3)
    store = on.take(StoreCommits)
    assert store.commits == tuple(tokens(call))
    assert in_flight(on) == set(tokens(call))


def test_a_refused_commit_is_not_sent(on: HostedScene) -> None:
    """The engine fences it. The others of the client are sent."""
    call = on.commits(("n", 99, None), ("n", 2, None), ("stranger", 2, None))
    assert [token for token, _ in on.sent] == [tokens(call)[1]]
    codes = [getattr(outcome.decision, "error", None) for outcome in outcomes(call)]
    assert codes[1] is ErrorCode.NONE
    assert ErrorCode.NONE not in (codes[0], codes[2])
    assert phases(call) == [CommitPhase.ENDED] * 3


def test_a_commit_that_the_engine_refuses_costs_nothing() -> None:
    """No anchor, no question to the coordinator."""
    on = HostedScene()
    call = on.commit("stranger", 3)
    assert getattr(outcomes(call)[0].decision, "error", None)
    assert on.count_requests(JoinGroupRequest) == 0
    assert on.sent == []


@pytest.mark.parametrize("member_id", ["n", "stranger"])
def test_a_call_that_is_over_keeps_no_commit_in_a_cycle(on: HostedScene, member_id: str) -> None:
    """Stored, refused by the engine, or answered before the engine had it."""
    waiting = on.commits((member_id, 2, None), is_at_coordinator=None)
    on.feed(Gone(waiting))
    for call in (waiting, on.commit(member_id, 2)):
        assert call.answer is not None
        assert [commit.call for commit in call.commits.values()] == [None]


def test_a_consumer_that_assigns_itself_needs_no_anchor() -> None:
    """Such a consumer is not a member, and the cluster has no members in the group."""
    on = HostedScene()
    call = on.commit()
    assert on.sent == [(tokens(call)[0], None)]
    assert on.count_requests(JoinGroupRequest) == 0
    assert on.group.engine.phase is LogPhase.UNLOADED


def test_a_commit_without_a_member_uses_an_anchor_that_is_there() -> None:
    """The anchor lingers, so the cluster refuses commits without a member."""
    on = HostedScene()
    on.native_member()
    on.native("n", -1)
    call = on.commit()
    assert on.sent == [(tokens(call)[0], ids_of(on))]
    assert ids_of(on) is not None


def test_a_commit_without_a_member_takes_the_place_of_an_anchor_left_behind() -> None:
    """An earlier process left it. Once it is seen that there is none, none is taken."""
    before = HostedScene()
    before.native_member()
    before.native("n", -1)
    on = before.restart()
    call = on.commit()
    assert outcomes(call)[0].refused is None
    assert on.sent == [(tokens(call)[0], ids_of(on))]
    assert on.count_requests(JoinGroupRequest) == 2


def test_without_anchors_commits_name_no_member() -> None:
    """The embedded cluster has none."""
    on = HostedScene(can_anchor=False)
    on.native_member()
    on.in_cluster.member_id = ""
    member_commit(on)
    assert [ids for _, ids in on.sent] == [None]
    assert on.count(AskCoordinator) == 0


def test_a_commit_waits_for_the_anchor_for_a_limited_time(on: HostedScene) -> None:
    """A member's heartbeat queues behind it. The commit never travels without ids."""
    on.coordinator_failure = "nobody answers"
    on.hold(StoreCommits)
    member_commit(on)
    on.feed(commit_answer(on.take(StoreCommits), LOST))
    call = on.commit("n", 2, {"foo": [1]})
    assert on.count(ProbeBroker) == 1
    on.wait(MEMBER_WAIT_MS - 1)
    assert call.answer is None
    on.wait(1)
    refused = outcomes(call)[0].refused
    assert isinstance(refused, Refused)
    assert refused.cause is RefusalReason.NOT_ANCHORED
    assert phases(call) == [CommitPhase.ENDED]
    assert on.waits(StoreCommits) == 0


def test_a_commit_does_not_wait_for_the_anchor_if_its_broker_is_away(on: HostedScene) -> None:
    """The client learns immediately where to go instead."""
    on.coordinator_failure = "nobody answers"
    on.is_broker_there = False
    on.in_cluster.remove_member()
    on.hold(AskCoordinator, StoreCommits)
    first = member_commit(on)
    on.feed(commit_answer(on.take(StoreCommits), DISPLACED))
    assert [outcome.is_away for outcome in outcomes(first)] == [True]
    assert phases(first) == [CommitPhase.ENDED]
    assert in_flight(on) == set()


def test_commits_that_were_not_sent_end(on: HostedScene) -> None:
    """The broker went away before. They cannot be stored late, so the anchor stays as it is."""
    on.is_broker_there = False
    call = member_commit(on)
    assert [outcome.is_away for outcome in outcomes(call)] == [True]
    assert phases(call) == [CommitPhase.ENDED]
    assert in_flight(on) == set()
    assert on.group.anchor.phase is AnchorPhase.STABLE


# -- an anchor that the cluster refuses ------------------------------------------------------------


def test_commits_refused_to_the_anchor_are_sent_again_in_order(on: HostedScene) -> None:
    """An admin removed the anchor. The gateway takes it again, and the client notices nothing."""
    before = ids_of(on)
    on.in_cluster.remove_member()
    call = member_commit(on, 3)
    assert all(not outcome.is_away and outcome.refused is None for outcome in outcomes(call))
    assert [token for token, _ in on.sent] == tokens(call) * 2
    assert [ids == before for _, ids in on.sent] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("code", sorted(ABOUT_THE_ANCHOR), ids=lambda code: code.name)
def test_no_error_about_the_anchor_reaches_a_client(on: HostedScene, code: ErrorCode) -> None:
    """The anchor is repaired, and the commit is sent again."""
    on.hold(StoreCommits)
    call = member_commit(on)
    on.feed(commit_answer(on.take(StoreCommits), frozenset({int(code)})))
    assert call.answer is None
    assert phases(call) == [CommitPhase.SENT]
    on.release(StoreCommits)
    assert outcomes(call)[0].refused is None


def test_a_members_commit_uses_the_anchor_even_if_its_group_has_become_empty() -> None:
    """Without ids, the cluster would also store it for a gateway that has lost the group."""
    on = HostedScene(linger_ms=500)
    on.native_member()
    on.hold(StoreCommits)
    call = member_commit(on)
    asked = on.take(StoreCommits)
    on.native("n", -1)
    on.wait(1_000)
    assert not on.group.is_live
    assert not on.group.anchor.is_here
    on.release(StoreCommits)
    on.feed(commit_answer(asked, DISPLACED))
    assert on.sent == [(tokens(call)[0], ids_of(on))]
    assert ids_of(on) is not None


def test_no_commit_is_sent_again_after_another_member_had_the_group(on: HostedScene) -> None:
    """The other member may have committed a later offset, which would go back."""
    on.hold(StoreCommits)
    call = member_commit(on)
    asked = on.take(StoreCommits)
    on.coordinator.groups[on.group.group_id] = FakeGroup(
        protocol_type="consumer", protocol="range", member_id="intruder", is_synced=True
    )
    on.wait(10_000)
    on.in_cluster.remove_member()
    on.release(StoreCommits)
    on.feed(commit_answer(asked, DISPLACED))
    assert on.sent == []
    assert outcomes(call)[0].refused == Refused(RefusalReason.NOT_ANCHORED, on.group.anchor.reason)
    assert in_flight(on) == set()


def test_an_overtaken_commit_is_not_sent_again(on: HostedScene) -> None:
    """Sending it again would take an offset back. The client may retry."""
    on.hold(StoreCommits)
    call = member_commit(on, 3)
    first, second, third = on.take(StoreCommits).commits
    on.feed(Done(pending_action_of(call), {first: DISPLACED, second: OK, third: DISPLACED}))
    assert phases(call) == [CommitPhase.ENDED, CommitPhase.ENDED, CommitPhase.SENT]
    assert on.take(StoreCommits).commits == (third,)
    on.feed(Done(pending_action_of(call), {third: OK}))
    refused = outcomes(call)[0].refused
    assert refused is not None
    assert refused.cause is RefusalReason.NOT_ANCHORED
    assert [outcome.refused for outcome in outcomes(call)[1:]] == [None, None]


def test_a_commit_behind_a_lost_one_is_not_sent_again(on: HostedScene) -> None:
    """The lost one may have been stored."""
    on.hold(StoreCommits)
    call = member_commit(on, 2)
    first, second = on.take(StoreCommits).commits
    on.feed(Done(pending_action_of(call), {first: DISPLACED, second: LOST}))
    assert on.waits(StoreCommits) == 0
    assert outcomes(call)[0].refused is not None


def test_other_errors_of_the_cluster_reach_the_client(on: HostedScene) -> None:
    """Such errors are about the client's offsets. The anchor stays as it is."""
    on.hold(StoreCommits)
    call = member_commit(on)
    on.feed(commit_answer(on.take(StoreCommits), frozenset({12})))
    assert outcomes(call)[0] == Outcome(decision=outcomes(call)[0].decision)
    assert on.group.anchor.phase is AnchorPhase.STABLE


def test_a_moved_coordinator_is_looked_up_for_the_anchor(on: HostedScene) -> None:
    """The client is told to look for it as well."""
    on.hold(StoreCommits)
    call = member_commit(on)
    code = frozenset({int(ErrorCode.NOT_COORDINATOR)})
    on.feed(commit_answer(on.take(StoreCommits), code))
    assert call.answer
    last = [effect for effect in on.done if isinstance(effect, AskCoordinator)][-1]
    assert last.looks_up


# -- commits whose answer was lost -----------------------------------------------------------------


def lost_commit(on: HostedScene, *, of: Mapping[str, tuple[int, ...]] = ALL) -> Commits:
    """A commit of the member that the cluster may still store."""
    on.hold(StoreCommits)
    call = on.commit("n", 2, of)
    on.feed(commit_answer(on.take(StoreCommits), LOST))
    on.release(StoreCommits)
    return call


def test_a_lost_commit_holds_its_partitions_until_the_anchor_has_a_new_id(on: HostedScene) -> None:
    """The cluster refuses it from then on."""
    before = on.in_cluster.member_id
    on.hold(AskCoordinator)
    call = lost_commit(on)
    assert outcomes(call)[0].is_away
    assert phases(call) == [CommitPhase.STRAY]
    while on.waits(AskCoordinator):
        assert phases(call) == [CommitPhase.STRAY]
        assert in_flight(on) == set(tokens(call))
        on.held.clear()
        todo = on.pending.popleft()
        on.hold(AskCoordinator)
        on.feed(on.answer_to(todo))
        if on.group.anchor.phase is AnchorPhase.STABLE:
            break
    assert on.in_cluster.member_id != before
    assert phases(call) == [CommitPhase.ENDED]
    on.wait(0)
    assert in_flight(on) == set()


def test_no_owner_starts_before_a_stray_commit(on: HostedScene) -> None:
    """The stray commit could take the next owner's offset back."""
    on.hold(AskCoordinator)
    lost_commit(on)
    on.native("n", -1)
    on.hold()
    second = on.native("second")
    on.wait(2_000)
    assert second.answer is None or not getattr(second.answer, "assignment", None)
    on.release(AskCoordinator)
    on.wait(2_000)
    given = on.native("second", owned={}).answer
    assert isinstance(given, ConsumerHeartbeatReply)
    assert given.assignment is not None
    assert len(given.assignment) == 3


def test_a_stray_commit_without_a_member_ends_once_an_anchor_has_joined() -> None:
    """A consumer that uses assign() lost its connection."""
    on = HostedScene(linger_ms=1_000)
    on.hold(StoreCommits)
    call = on.commit()
    on.feed(commit_answer(on.take(StoreCommits), LOST))
    assert phases(call) == [CommitPhase.ENDED]
    assert on.in_cluster.joins == 1
    on.wait(10_000)
    assert on.in_cluster.member_id == ""
    assert on.group.is_idle


def test_a_timer_ends_a_stray_commit_where_no_anchor_can() -> None:
    """The embedded cluster has no anchors."""
    on = HostedScene(can_anchor=False, config=GroupConfig())
    on.hold(StoreCommits)
    call = on.commit()
    on.feed(commit_answer(on.take(StoreCommits), LOST))
    assert in_flight(on) == set(tokens(call))
    on.wait(10_000)
    assert in_flight(on) == set()
    assert on.group.is_idle


def test_an_outage_stores_no_commit_late(on: HostedScene) -> None:
    """No commit travels while an earlier one may still arrive under the same ids."""
    on.loses_commits = True
    lost = member_commit(on)
    old = on.sent[-1][1]
    on.loses_commits = False
    later = member_commit(on)
    assert outcomes(lost)[0].is_away
    assert outcomes(later)[0].refused is None
    assert on.sent[-1][1] != old


# -- clients that disconnect -----------------------------------------------------------------------


def test_a_commit_of_a_client_that_has_gone_ends_without_being_sent(on: HostedScene) -> None:
    """If the commit did not end, its partitions could never move."""
    on.hold(Write, StoreCommits)
    on.native("m")
    call = member_commit(on)
    on.disconnect(call)
    on.release(Write)
    assert on.waits(StoreCommits) == 0
    assert phases(call) == [CommitPhase.ENDED]
    assert in_flight(on) == set()


def test_a_sent_commit_of_a_client_that_has_gone_is_stray(on: HostedScene) -> None:
    """The anchor gets a new id, and the cluster refuses the commit if it arrives late."""
    before = on.in_cluster.member_id
    on.hold(StoreCommits)
    call = member_commit(on)
    on.disconnect(call)
    assert on.in_cluster.member_id != before
    assert phases(call) == [CommitPhase.ENDED]
    on.release(StoreCommits)
    assert phases(call) == [CommitPhase.ENDED], "a late answer changes nothing"


def test_a_commit_of_a_client_that_goes_while_it_waits_for_the_anchor_ends(
    on: HostedScene,
) -> None:
    """The commit was never sent."""
    on.hold(StoreCommits)
    call = member_commit(on)
    on.coordinator_failure = "nobody answers"
    on.feed(commit_answer(on.take(StoreCommits), DISPLACED))
    assert phases(call) == [CommitPhase.ACCEPTED]
    on.disconnect(call)
    assert phases(call) == [CommitPhase.ENDED]
    assert in_flight(on) == set()


@pytest.mark.parametrize("kind", [LearnTopics, Load])
def test_a_client_may_disconnect_before_its_commit_is_checked(kind: type[Any]) -> None:
    """Whatever the commit waits for."""
    on = HostedScene()
    on.hold(kind)
    call = on.commits(("", -1, None), knows_topics=kind is not LearnTopics)
    assert on.waits(kind) == 1
    on.disconnect(call)
    on.release(kind)
    on.wait(0)
    assert on.sent == []
    assert in_flight(on) == set()
    assert on.group.is_idle


# -- failures --------------------------------------------------------------------------------------


def test_a_commit_survives_a_reload_of_the_group(
    on: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is in no log, but the cluster may still store it."""
    on.hold(StoreCommits)
    call = member_commit(on)
    break_engine(monkeypatch, SyncGroupReceived, InvariantError("a bug"))
    on.sync("nobody", 1)
    assert on.count(Load) == 2
    assert in_flight(on) == set(tokens(call))
    on.release(StoreCommits)
    assert in_flight(on) == set()


def test_a_commit_keeps_the_group_in_memory(on: HostedScene) -> None:
    """Its partitions count as held until the cluster has answered."""
    on.hold(StoreCommits)
    member_commit(on)
    on.native("n", -1)
    on.wait(2_000)
    assert on.group.engine.is_loaded
    on.release(StoreCommits)
    assert on.group.engine.phase is LogPhase.UNLOADED


def test_unreadable_groups_refuse_commits() -> None:
    """Each of them, as a coordinator does while it loads."""
    on = HostedScene()
    on.load_failure = "the disk is gone"
    call = on.commits(("n", 2, None), ("n", 2, None))
    assert [getattr(outcome.refused, "cause", None) for outcome in outcomes(call)] == [
        RefusalReason.LOADING
    ] * 2


def test_unknown_topics_refuse_commits(on: HostedScene) -> None:
    """The cluster does not answer about them now."""
    on.topics_failure = "nobody answers"
    call = member_commit(on, 2, knows_topics=False)
    assert [getattr(outcome.refused, "cause", None) for outcome in outcomes(call)] == [
        RefusalReason.TOPICS_UNKNOWN
    ] * 2
    assert "topics_unknown" in on.log_names()


def test_no_commit_is_forgotten_after_a_bug(on: HostedScene) -> None:
    """One that was sent is stray, one that was not has ended. Otherwise their partitions could
    never move again."""
    other = on.native_member("m")
    on.hold(StoreCommits, AskCoordinator)
    sent, waiting = member_commit(on), on.commit("m", other.member_epoch)
    on.take(StoreCommits)
    on.feed(commit_answer(on.take(StoreCommits), DISPLACED))
    assert phases(sent) + phases(waiting) == [CommitPhase.SENT, CommitPhase.ACCEPTED]
    start_again(on)
    assert isinstance(sent.answer, Unanswerable)
    assert isinstance(waiting.answer, Unanswerable)
    on.wait(10_000)
    assert phases(sent) + phases(waiting) == [CommitPhase.ENDED] * 2
    assert in_flight(on) == set()


def test_a_commit_of_a_client_that_has_gone_is_not_forgotten_after_a_bug(
    on: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bug was met between the engine's decision and what follows from it."""
    member, real = on.native_member(), CallStages._on_decision
    on.hold(Write)
    on.native("o")
    joins, commit = on.native("p"), on.commit("n", member.member_epoch)
    on.disconnect(commit)

    def on_decision(stages: CallStages, call: Call, *rest: Any) -> None:
        if call is joins:
            raise ZeroDivisionError
        real(stages, call, *rest)

    monkeypatch.setattr(CallStages, "_on_decision", on_decision)
    with pytest.raises(ZeroDivisionError):
        on.release(Write)
    assert in_flight(on) != set()
    start_again(on)
    on.wait(0)
    assert in_flight(on) == set()


def start_again(on: HostedScene) -> None:
    """A bug ends what was under way."""
    on.pending.clear()
    on.record(on.group.start_again(on.now_ms))
    on.held.clear()
    on.run()


def test_what_has_happened_is_not_forgotten_after_a_bug(on: HostedScene) -> None:
    """Its batch is dropped, and would not be repeated: the members would not be fenced."""
    on.hold(Write)
    on.feed(EngineEvent(GroupLost()))
    assert on.waits(Write) == 1
    start_again(on)
    on.wait(0)
    assert not on.group.is_live


def test_what_the_group_wanted_before_a_bug_is_not_done_twice(on: HostedScene) -> None:
    """Two answers to one load would be the next bug."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(on.group.anchor, "advance", broken)
        with pytest.raises(ZeroDivisionError):
            on.group.handle(SeenForeign("it uses connect"), on.now_ms)
        on.group.engine.start_again()
    start_again(on)
    assert on.count(Load) == 2
    assert on.group.engine.is_loaded


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError


def test_the_outcome_of_a_commit_that_was_not_sent_is_away() -> None:
    """The client's task reports it."""
    on = HostedScene()
    on.hold(StoreCommits)
    call = on.commit()
    on.feed(commit_answer(on.take(StoreCommits), AWAY))
    assert outcomes(call)[0].is_away
    assert OffsetCommitEnded(commit=tokens(call)[0]) not in on.group.engine._happened


def test_what_was_being_computed_is_not_forgotten_after_a_bug(
    on: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A happening is decided again; a request is repeated by its client."""
    decide = GroupEngine.handle

    def long(engine: GroupEngine, event: Event, *, may_take_long: bool = True, **how: Any) -> Step:
        if isinstance(event, GroupLost) and not may_take_long:
            raise LongComputation
        return decide(engine, event, may_take_long=may_take_long, **how)

    monkeypatch.setattr(GroupEngine, "handle", long)
    on.hold(Compute)
    on.feed(EngineEvent(GroupLost()))
    assert on.waits(Compute) == 1
    start_again(on)
    on.wait(0)
    assert not on.group.is_live


def test_a_bug_outside_the_engine_does_not_reload_the_group_again(
    on: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is loaded once, whatever the engine's own bug would have asked for."""
    on.hold(Write)
    on.native("a")
    on.native("b")
    on.join()
    break_engine(monkeypatch, JoinGroupReceived, InvariantError("a bug"))
    on.feed(Done(on.take(Write)))
    assert on.waits(Write) == 1
    start_again(on)
    loads = on.count(Load)
    assert error_of(on.native("c")) is ErrorCode.NONE
    assert on.count(Load) == loads


def test_a_commit_that_waited_for_the_anchor_is_not_given_up_once_it_is_sent(
    on: HostedScene,
) -> None:
    """From then on the cluster decides when it ends."""
    on.in_cluster.remove_member()
    on.hold(AskCoordinator)
    on.wait(3_000)
    call = member_commit(on)
    on.hold(StoreCommits)
    on.release(AskCoordinator)
    assert phases(call) == [CommitPhase.SENT]
    on.wait(2 * MEMBER_WAIT_MS)
    assert call.answer is None
    on.release(StoreCommits)
    assert outcomes(call)[0].refused is None
