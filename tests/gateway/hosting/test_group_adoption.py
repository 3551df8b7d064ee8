"""A group that is adopted: what becomes of the requests of its clients, and how it ends.

`test_adoption.py` has the steps themselves.
"""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.interface.records import AdoptionRecord
from coordinator.interface.replies import (
    HeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    SyncGroupReply,
)
from gateway.hosting.adoption import (
    AT_ONCE_MAX,
    COMMITS_UNDER_WAY,
    CONSIDER_EVERY_MS,
    HOLD_MAX_MS,
    UNDONE_FOR_MS,
)
from gateway.hosting.answers import RefusalReason
from gateway.hosting.call_stages import MEMBER_WAIT_MS
from gateway.hosting.calls import LOST, Abandoned, Call, Forwarded, StoreCommits
from gateway.hosting.effects import Ask, Describe, Hold, Load, Look, Requester, Write
from gateway.hosting.forwarded import Client, WatchedGroup
from gateway.hosting.inputs import Damage, Done, Ending, Failed, MoveRequested, Relayed, Resumed
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, NoMembers
from gateway.hosting.move import STILL_ENDING
from gateway.hosting.move_requests import AdoptRequest
from gateway.hosting.newest_connections import NewestConnections
from gateway.hosting.states import AdoptionStage, AnchorPhase, Mode, ReleaseStage
from gateway.hosting.states import AdoptionStage as Stage
from gateway.quotas.shares import ShareRule
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.leave_group import LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.gateway.hosting.adoption_script import ANCHOR, OK, ROUND, join_response
from tests.gateway.hosting.scene_commits import outcomes, pending_action_of
from tests.support.adoption import (
    GENERATION,
    GROUP,
    NOW_MS,
    A,
    B,
    cluster_description,
    watched_group,
)
from tests.support.hosted_scene import (
    OURS,
    HostedScene,
    cause_of,
    error_of,
    hosting_rules,
)

JOIN_METADATA = OURS.join_metadata
LEFT = LeaveGroupResponse()
DIRECT = LiveMembers("consumer", ("a", "b"), "range")


def is_waiting(call: Call) -> bool:
    return call.answer is None


class Scene(HostedScene):
    """A group of two consumers behind the gateway. The cluster's coordinator answers as the test
    says."""

    def __init__(self, **how: Any) -> None:
        super().__init__(hosting_rules(**how), group_id=GROUP)
        self.now_ms = NOW_MS
        self.found = DIRECT
        self.outside = False
        """Whether one of the members bypasses the gateway."""
        self.committed_on = NewestConnections()
        self.rules.watched.group = self._watched_group  # type: ignore[method-assign]
        self.hold(Describe, Hold, Ask)
        self.request = AdoptRequest()

    def _watched_group(self, group_id: str) -> WatchedGroup:
        """What the gateway knows from what it has relayed."""
        assert group_id == GROUP
        latest = {"heartbeat_ms": self.now_ms, "joined_on": 2}
        group = watched_group(latest, {"heartbeat_ms": None} if self.outside else latest)
        return replace(group, committed_on=self.committed_on)

    def is_at(self, stage: AdoptionStage | None) -> bool:
        return self.stage is stage

    @property
    def stage(self) -> AdoptionStage | ReleaseStage | None:
        return self.group.move.stage

    def adopt(self) -> None:
        self.feed(MoveRequested(self.request))

    def describe(self, **changes: Any) -> None:
        self.feed(Done(self.take(Describe), cluster_description(**changes)))

    def respond(self, requester: Requester, answer: Any) -> None:
        asked = next(e for e in self.pending if isinstance(e, Ask) and e.requester is requester)
        self.pending.remove(asked)
        self.feed(Done(asked, answer))

    def fail(self, requester: Requester) -> None:
        asked = next(e for e in self.pending if isinstance(e, Ask) and e.requester is requester)
        self.pending.remove(asked)
        self.feed(Failed(asked, "it is gone"))

    # -- ways to a stage -------------------------------------------------------------------------

    def to_holding(self) -> None:
        self.adopt()
        self.describe()
        self.describe()
        assert self.waits(Hold) == 1

    def to_rejoining(self) -> None:
        self.to_holding()
        self.feed(Done(self.take(Hold)))
        self.respond(Requester.OTHERS, OK)
        self.respond(Requester.OTHERS, OK)

    def to_anchoring(self) -> None:
        self.to_rejoining()
        self.respond(Requester.OTHERS, ROUND)
        self.describe(group_state="PreparingRebalance")
        self.respond(Requester.OTHERS, LEFT)
        self.respond(Requester.LEADER, join_response(8))
        self.respond(Requester.LEADER, join_response(9))
        self.respond(Requester.LEADER, SyncGroupResponse())

    def to_end(self) -> None:
        self.to_anchoring()
        self.from_anchoring_to_end()

    def from_anchoring_to_end(self) -> None:
        self.respond(Requester.LEADER, ROUND)
        self.respond(Requester.LEADER, LEFT)
        self.respond(Requester.ANCHOR, join_response(10, member_id=ANCHOR))
        self.in_cluster_is_the_anchor()
        self.respond(Requester.ANCHOR, SyncGroupResponse())

    def in_cluster_is_the_anchor(self) -> None:
        group = self.in_cluster
        group.protocol_type, group.protocol = JOIN_METADATA.protocol_type, JOIN_METADATA.protocol
        group.member_id, group.instance_id = ANCHOR, JOIN_METADATA.instance_id
        group.generation, group.is_synced = 10, True
        self.found = None

    def to_recalling(self) -> None:
        """The leader's member guards the group."""
        self.to_rejoining()
        self.fail(Requester.OTHERS)
        self.respond(Requester.LEADER, join_response(8))
        self.respond(Requester.LEADER, SyncGroupResponse())
        assert self.stage is Stage.GIVING_BACK

    def outcome(self) -> Any:
        assert self.request.outcome is not None
        return self.request.outcome


@pytest.fixture
def on() -> Scene:
    return Scene()


# -- a whole adoption ------------------------------------------------------------------------------


def test_a_group_continues_under_the_same_ids(on: Scene) -> None:
    """Members, generation and assignments stay, and the anchor's place is the one that the adoption
    has taken."""
    on.to_end()
    assert on.outcome().is_adopted
    assert on.group.is_live
    assert on.group.anchor.phase is AnchorPhase.STABLE
    assert [error_of(on.beat(member_id, GENERATION)) for member_id in (A, B)] == [
        ErrorCode.NONE
    ] * 2
    assert on.events_named("group_adopted") == [{"held_ms": on.outcome().held_ms}]
    (loaded,) = on.events_named("group_loaded")
    assert loaded["members"]
    assert all(member["partitions"] for member in loaded["members"])
    assert on.count(Look) == 0


def test_an_adopted_group_is_no_longer_the_clusters_when_its_members_have_left(on: Scene) -> None:
    """A look before the adoption found its members in the cluster."""
    on.group.routing.take(DIRECT, on.now_ms)
    on.to_end()
    for member_id in (A, B):
        on.leave(member_id)
    assert not on.group.is_live
    assert error_of(on.join("late")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert on.group.routing.decision.has_anchor


def test_a_lookup_from_before_the_adoption_does_not_give_the_group_away(on: Scene) -> None:
    """The lookup has seen the members in the cluster, and they are here now."""
    on.hold(Look)
    on.join("late")
    on.to_end()
    on.feed(Done(on.take(Look), DIRECT))
    assert on.group.routing.decision.mode is Mode.HOSTED
    assert on.events_named("group_forwarded") == []


def test_no_group_is_adopted_while_the_cluster_has_commits_for_it(on: Scene) -> None:
    """The commits were sent while the group had no members. If the answer to one is lost, the
    anchor has to join, next to that of the adoption."""
    on.found = NoMembers()
    on.hold(StoreCommits)
    on.commit()
    on.found = DIRECT
    on.adopt()
    assert on.outcome().reasons == (COMMITS_UNDER_WAY,)
    on.release(StoreCommits)
    on.request = AdoptRequest()
    on.to_end()
    assert on.outcome().is_adopted


def test_commits_that_waited_are_stored_under_the_ids_of_the_anchor(on: Scene) -> None:
    """The commits are stored in the order of their arrival; none is lost, none refused."""
    on.to_anchoring()
    calls = [on.commit(member_id, GENERATION, {"foo": [n]}) for n, member_id in enumerate((A, B))]
    on.from_anchoring_to_end()
    assert [(token, ids and ids.member_id) for token, ids in on.sent] == [
        (token, ANCHOR) for call in calls for token in call.commits
    ]
    assert not any(outcome.refused for call in calls for outcome in call.outcomes.values())


def test_a_commit_that_waited_behind_a_relayed_one_takes_no_offset_back(on: Scene) -> None:
    """The commit was sent before the relayed one, on a connection that its client has given up
    (seed 2026120479)."""
    on.committed_on.record((A,), 5)
    on.to_end()
    assert isinstance(on.commits((A, GENERATION, None), connection=4).answer, Abandoned)
    assert not isinstance(on.commits((A, GENERATION, None), connection=5).answer, Abandoned)
    assert not isinstance(on.commits((B, GENERATION, None), connection=4).answer, Abandoned)


# -- before anything is held -----------------------------------------------------------------------


def test_requests_are_relayed_until_the_log_knows_of_the_adoption(on: Scene) -> None:
    on.adopt()
    assert isinstance(on.beat(A, GENERATION).answer, Forwarded)
    on.describe()
    on.hold(Write)
    on.describe()
    assert on.is_at(Stage.ANNOUNCING)
    assert isinstance(on.commit(A, GENERATION).answer, Forwarded)
    on.release(Write)
    assert on.commit(A, GENERATION).answer is None


def test_a_group_that_cannot_be_adopted_says_why(on: Scene) -> None:
    on.adopt()
    on.describe(group_state="PreparingRebalance")
    assert on.outcome().reasons == (
        "the cluster says that it is PreparingRebalance: try again once it is Stable",
    )
    assert on.outcome().held_ms is None
    assert on.group.is_idle
    assert on.events == []


def test_a_log_that_cannot_be_read_adopts_nothing(on: Scene) -> None:
    on.load_failure = "the disk is gone"
    on.adopt()
    assert on.outcome().reasons == ("its state log cannot be read",)


def test_a_log_that_cannot_store_it_leaves_the_group_where_it_is(on: Scene) -> None:
    on.adopt()
    on.describe()
    on.damage = Damage.NONE
    on.describe()
    on.damage = None
    on.wait(1_000)
    assert "the state log failed" in on.outcome().reasons[0]
    assert isinstance(on.beat(A, GENERATION).answer, Forwarded)
    assert on.events_named("adoption_undone") == []


def test_an_adoption_needs_places_for_the_group_and_its_anchor() -> None:
    on = Scene()
    on.limits.anchored.limit(0, ShareRule())
    on.adopt()
    assert "the limit of 0 anchored groups is reached" in on.outcome().reasons[0]


# -- while calls are held --------------------------------------------------------------------------


def test_a_look_from_before_the_adoption_says_nothing_during_it(on: Scene) -> None:
    """The look shows the leader's member, or an anchor, where consumers will be again or have
    been."""
    on.hold(Look)
    on.join("late")
    on.to_rejoining()
    decision, events_before = on.group.routing.decision, len(on.events)
    on.found = LiveMembers("consumer", ("a",), JOIN_METADATA.protocol)
    on.release(Look)
    assert on.count(Look) == 1
    assert on.group.routing.decision is decision
    assert len(on.events) == events_before


def test_heartbeats_wait_until_the_group_is_guarded(on: Scene) -> None:
    """Before that, the cluster might remove a member that believes to be in."""
    on.to_holding()
    early = on.beat(B, GENERATION)
    assert is_waiting(early)
    on.feed(Done(on.take(Hold)))
    on.respond(Requester.OTHERS, OK)
    on.respond(Requester.OTHERS, OK)
    assert early.answer == HeartbeatReply()
    assert on.beat(A, GENERATION).answer == HeartbeatReply()


@pytest.mark.parametrize(("member_id", "generation"), [(A, GENERATION - 1), ("stranger", 7)])
def test_only_members_of_the_generation_are_vouched_for(
    on: Scene, member_id: str, generation: int
) -> None:
    on.to_rejoining()
    assert on.beat(member_id, generation).answer is None


def test_no_call_is_held_for_long(on: Scene) -> None:
    """The coordinator is away, and there is no way back. The member's next heartbeat queues behind
    its commit."""
    on.to_anchoring()
    on.respond(Requester.LEADER, ROUND)
    call = on.join()
    commit = on.commit(A, GENERATION)
    on.wait(MEMBER_WAIT_MS)
    assert cause_of(commit) is RefusalReason.MOVING
    on.wait(10_000)
    assert cause_of(call) is RefusalReason.MOVING


def test_an_adoption_that_takes_too_long_is_undone_and_calls_are_relayed(on: Scene) -> None:
    """Something that was relayed has no answer. Nothing has changed in the cluster."""
    on.to_holding()
    call = on.beat(A, GENERATION)
    on.wait(HOLD_MAX_MS)
    assert isinstance(call.answer, Forwarded)
    assert on.events_named("adoption_undone")[0]["held_ms"] == HOLD_MAX_MS
    assert on.count(Look) == 1
    on.feed(Done(on.take(Hold)))  # too late
    assert on.is_at(None)


# -- undoing it ------------------------------------------------------------------------------------


def test_recalled_members_are_told_to_rejoin(on: Scene) -> None:
    on.to_recalling()
    for call in (on.beat(A, GENERATION), on.sync(B, GENERATION)):
        assert cause_of(call) is RefusalReason.RECALLED


def test_a_recalled_member_that_has_given_up_its_partitions_waits_under_a_new_id(
    on: Scene,
) -> None:
    """Requests under its former id are void in the end."""
    on.to_recalling()
    assert cause_of(on.join(A)) is RefusalReason.RECALLED
    waiting = on.join()
    assert is_waiting(waiting)
    assert isinstance(on.leave(B).answer, LeaveGroupReply)
    on.wait(0)
    on.respond(Requester.OTHERS, LEFT)
    assert isinstance(waiting.answer, Forwarded)
    assert on.events_named("adoption_undone")
    assert not on.outcome().is_adopted


def test_a_join_on_an_older_connection_than_the_relayed_one_gives_no_partitions_up(
    on: Scene,
) -> None:
    """An eager member owns nothing whenever it joins, and this one has joined again since."""
    on.to_recalling()
    assert isinstance(on.leave(B).answer, LeaveGroupReply)
    on.join(A, connection=1)
    on.wait(0)
    assert not [ask for ask in on.pending if isinstance(ask, Ask)]
    assert cause_of(on.join(A, connection=2)) is RefusalReason.RECALLED
    on.wait(0)
    on.respond(Requester.OTHERS, LEFT)
    assert on.events_named("adoption_undone")


def test_a_cooperative_member_gives_up_its_partitions_in_a_round_without_any(on: Scene) -> None:
    """Some clients keep their partitions on UNKNOWN_MEMBER_ID, and claim them again and again."""
    on.to_recalling()
    on.leave(B)
    joined_again = on.join(A, owned={"foo": [0]}).answer
    assert isinstance(joined_again, JoinGroupReply)
    synced = on.sync(A, joined_again.generation).answer
    assert isinstance(synced, SyncGroupReply)
    assert not decode_assignment(synced.assignment)[1].assigned_partitions
    on.wait(100)
    assert on.waits(Ask) == 0
    assert cause_of(on.join(A)) is RefusalReason.RECALLED
    on.wait(0)
    assert on.waits(Ask) == 1


def test_commits_of_recalled_members_travel_under_the_ids_of_the_guard(on: Scene) -> None:
    on.to_recalling()
    on.hold(StoreCommits)
    call = on.commit(B, GENERATION)
    store = on.take(StoreCommits)
    assert store.ids is not None
    assert (store.ids.member_id, store.ids.generation) == (A, 8)
    (token,) = call.commits
    on.feed(Done(pending_action_of(call), {token: frozenset({0})}))
    assert isinstance(call.answer, dict)
    assert call.outcomes[token].refused is None
    assert on.group.anchor.phase is AnchorPhase.ABSENT


def test_no_commit_of_a_stranger_travels_under_the_ids_of_the_guard(on: Scene) -> None:
    on.to_recalling()
    (outcome,) = outcomes(on.commit("stranger", GENERATION))
    assert outcome.decision is not None
    assert outcome.decision.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert on.sent == []


def test_no_commit_is_stored_after_one_that_was_lost(on: Scene) -> None:
    """The cluster might store the lost one last, and the offset would go back."""
    on.to_recalling()
    on.hold(StoreCommits)
    call = on.commit(B, GENERATION)
    (token,) = call.commits
    on.take(StoreCommits)
    on.feed(Done(pending_action_of(call), {token: LOST}))
    assert call.outcomes[token].is_away
    assert cause_of(on.commit(B, GENERATION)) is RefusalReason.RECALLED
    assert on.group.anchor.phase is AnchorPhase.ABSENT


def test_the_cluster_is_asked_before_a_join_is_relayed_again(on: Scene) -> None:
    """A late JoinGroup of the anchor may have taken the group."""
    on.to_recalling()
    for member_id in (A, B):
        on.leave(member_id)
    on.wait(0)
    on.respond(Requester.OTHERS, LEFT)
    on.found = LookupFailed("nobody answers")
    assert cause_of(on.join("m")) is RefusalReason.HOLDER_UNKNOWN


# -- restarts, bugs and ends -----------------------------------------------------------------------


def test_an_adoption_in_the_log_continues_at_the_start(on: Scene) -> None:
    """Locked, so nobody else can have had the group."""
    on.to_anchoring()
    again = Scene()
    again.records, again.load_failure = on.records, "the disk is slow"
    again.feed(Resumed(is_moving=True))
    call = again.beat(A, GENERATION)
    assert is_waiting(call)  # not relayed, although the group is not loaded
    again.load_failure = None
    again.wait(1_000)
    assert again.is_at(Stage.RESUMING)
    again.describe(members=cluster_description().members[:1])
    assert again.is_at(Stage.ANCHORING)
    assert call.answer == HeartbeatReply()


def test_a_bug_leaves_the_decision_to_the_log(on: Scene) -> None:
    """No answer to an earlier step follows."""
    on.to_rejoining()
    on.pending.clear()
    on.record(on.group.start_again(on.now_ms))
    on.run()
    assert on.is_at(Stage.RESUMING)
    assert not on.outcome().is_adopted


def test_calls_wait_until_the_log_has_said_whether_the_adoption_continues(on: Scene) -> None:
    """Relayed after a bug, they could reach the cluster while the members rejoin there."""
    on.to_rejoining()
    on.pending.clear()
    on.load_failure = "the disk is slow"
    on.record(on.group.start_again(on.now_ms))
    on.run()
    call = on.beat(A, GENERATION)
    assert is_waiting(call)
    on.load_failure = None
    on.wait(1_000)
    assert on.is_at(Stage.RESUMING)


def test_a_bug_gives_another_group_its_turn(on: Scene) -> None:
    """The log knows nothing of the adoption yet, so it does not continue."""
    on.adopt()
    assert on.rules.adopting == {GROUP}
    on.record(on.group.start_again(on.now_ms))
    on.run()
    assert on.rules.adopting == set()


def test_no_adoption_begins_once_the_gateway_ends(on: Scene) -> None:
    on.feed(Ending())
    on.adopt()
    assert on.outcome().reasons == ("the gateway is shutting down",)
    assert on.waits(Describe) == 0


def test_the_record_of_an_adoption_is_gone_in_the_end(on: Scene) -> None:
    """The next process would continue with a record that is left."""
    on.to_end()
    (last,) = [record for record in on.records if isinstance(record, AdoptionRecord)][-1:]
    assert last.value is None


# -- by itself -------------------------------------------------------------------------------------


def relay_beat(on: Scene, code: ErrorCode = ErrorCode.NONE) -> None:
    """The cluster answers a heartbeat."""
    asked = HeartbeatRequest(group_id=GROUP, generation_id=GENERATION, member_id=A)
    answer = HeartbeatResponse(error_code=code)
    on.feed(Relayed(Client(client_id="a", client_host="/10.0.0.1"), asked, answer))


@pytest.mark.parametrize(("adoption", "begins"), [("auto", 1), ("manual", 0), ("never", 0)])
def test_only_auto_adopts_without_being_asked(adoption: str, begins: int) -> None:
    on = Scene(adoption=adoption)
    relay_beat(on)
    assert on.waits(Describe) == begins


def test_a_rebalance_is_no_time_to_adopt() -> None:
    on = Scene(adoption="auto")
    relay_beat(on, ErrorCode.REBALANCE_IN_PROGRESS)
    assert on.waits(Describe) == 0


def test_a_group_with_a_member_outside_costs_the_cluster_nothing() -> None:
    on = Scene(adoption="auto")
    on.outside = True
    relay_beat(on)
    assert on.waits(Describe) == 0


def test_an_adoption_that_was_undone_is_not_repeated_at_once() -> None:
    """Each attempt costs the members a rebalance."""
    on = Scene(adoption="auto")
    relay_beat(on)
    on.describe()
    on.describe()
    on.wait(HOLD_MAX_MS)
    assert on.is_at(None)
    on.feed(Done(on.take(Hold)))
    on.now_ms += UNDONE_FOR_MS - 1
    relay_beat(on)
    assert on.is_at(None)
    on.now_ms += 1
    relay_beat(on)
    assert on.is_at(Stage.PROPOSED)


def test_a_group_is_adopted_again_once_the_last_step_has_ended() -> None:
    """Heartbeats before that change nothing."""
    on = Scene(adoption="auto")
    relay_beat(on)
    on.describe()
    on.describe()
    on.wait(HOLD_MAX_MS)
    on.now_ms += UNDONE_FOR_MS
    loads = on.count(Load)
    relay_beat(on)
    assert on.count(Load) == loads
    on.feed(Done(on.take(Hold)))
    relay_beat(on)
    assert on.is_at(Stage.PROPOSED)


def test_an_unpromising_group_is_considered_again_after_a_while() -> None:
    """Looking at its members with each heartbeat would cost the size of the group each time."""
    on = Scene(adoption="auto")
    on.outside = True
    relay_beat(on)
    on.outside = False
    on.now_ms += CONSIDER_EVERY_MS - 1
    relay_beat(on)
    assert on.waits(Describe) == 0
    on.now_ms += 1
    relay_beat(on)
    assert on.waits(Describe) == 1


def test_an_answer_to_an_earlier_adoption_is_not_taken_for_one_to_the_next() -> None:
    """A client's request is still on its way to the cluster when the adoption is undone, and
    `Hold` ends late."""
    on = Scene()
    on.to_holding()
    on.wait(HOLD_MAX_MS)
    on.request = AdoptRequest()
    on.adopt()
    assert on.outcome().reasons == (STILL_ENDING,)
    on.feed(Done(on.take(Hold)))
    on.pending.clear()
    on.request = AdoptRequest()
    on.to_holding()
    assert on.is_at(Stage.IMPERSONATING)
    assert on.waits(Ask) == 0, "requests are under way"


def test_few_groups_are_adopted_at_a_time() -> None:
    on = Scene(adoption="auto")
    on.rules.adopting.update(f"g{number}" for number in range(AT_ONCE_MAX))
    relay_beat(on)
    assert on.waits(Describe) == 0
