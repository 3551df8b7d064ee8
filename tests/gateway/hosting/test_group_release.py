"""A group that is released: what becomes of the requests of its clients, and how it ends.

`test_release.py` has the steps themselves.
"""

from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest

from coordinator.interface.records import ReleaseRecord, ReleaseState
from coordinator.interface.replies import (
    ClaimReply,
    ConsumerHeartbeatReply,
    JoinGroupReply,
    OffsetReply,
    Reply,
)
from gateway.hosting.anchor import GENERATIONS_OF_A_CONSUMER
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.hosting.calls import (
    LOST,
    Abandoned,
    Call,
    Forwarded,
    Outcome,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.effects import Ask, AskCoordinator, Describe, Load, Write
from gateway.hosting.forwarded import Client
from gateway.hosting.inputs import (
    Damage,
    Done,
    Ending,
    Failed,
    Leave,
    MoveRequested,
    Paused,
    Relayed,
    Resumed,
)
from gateway.hosting.logged_engine import LOAD_RETRY_MS
from gateway.hosting.lookup_outcome import LookupFailed
from gateway.hosting.move_requests import (
    AdoptRequest,
    NewProtocol,
    ReleaseOutcome,
    ReleaseRequest,
)
from gateway.hosting.release import NATIVE_FIRST_MAX_MS, SETTLE_MAX_MS
from gateway.hosting.states import AnchorPhase, Mode, ReleaseStage
from gateway.hosting.upstream_member import HEARTBEAT_INTERVAL_MS
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.describe_groups import (
    DescribedGroup,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.gateway.hosting.scene_commits import commit_answer, outcomes, pending_action_of, tokens
from tests.simulation.coordinator import FakeGroup
from tests.support.hosted_scene import HostedScene, anchored, cause_of, error_of

CONNECTION = 1
SESSION_MS = 10_000
RECONNECT_MS = 15_000
"""How long clients may take to find a gateway that was started."""
NATIVE_IS_IN = Relayed(
    Client(client_id="n", client_host="/10.0.0.1"),
    ConsumerGroupHeartbeatRequest(group_id="g", member_id="n-1", member_epoch=0),
    ConsumerGroupHeartbeatResponse(member_id="n-1", member_epoch=1),
)


class Scene(HostedScene):
    """A hosted group with one classic member."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.joined = self.classic_member()
        self.member_id = self.joined.member_id
        self.wait(1_000)
        self.hold(Ask, Describe)
        self.request = ReleaseRequest()

    @property
    def release_of(self) -> Any:
        return self.group.move

    @property
    def outcome(self) -> ReleaseOutcome | None:
        return self.request.outcome

    def begin(self) -> None:
        self.feed(MoveRequested(self.request))

    def step(self, answer: Any) -> None:
        step(self, answer)

    def to_gathering(self) -> None:
        """The member has given up, and its next join may reach the cluster."""
        self.begin()
        self.join(self.member_id)
        self.step(JoinGroupResponse(generation_id=9, protocol_name="x"))
        self.step(SyncGroupResponse())

    def to_the_end(self) -> None:
        self.to_gathering()
        group = DescribedGroup(group_id=self.group.group_id, members=())
        self.step(group)
        self.wait(5_000)
        self.step(group)
        self.wait(100)
        self.step(LeaveGroupResponse())

    def restart_after_kill(self) -> HostedScene:
        """The gateway that is started after a kill of this one."""
        again = self.restart()
        again.hold(Ask, Describe)
        again.feed(Resumed(is_moving=True))
        return again

    def log_has(self) -> ReleaseState | None:
        return log_has(self)


def step(on: HostedScene, answer: Any) -> None:
    asked = on.take(Describe) if isinstance(answer, DescribedGroup) else on.take(Ask)
    on.feed(Done(asked, answer))


def log_has(on: HostedScene) -> ReleaseState | None:
    releases = [record.value for record in on.records if isinstance(record, ReleaseRecord)]
    return releases[-1] if releases else None


@pytest.fixture
def on() -> Scene:
    return Scene()


def is_waiting(call: Call) -> bool:
    return call.answer is None


def test_a_recalled_member_is_told_to_rejoin_and_its_id_is_void(on: Scene) -> None:
    on.begin()
    assert on.events_named("release_started") == [{"members": 1}]
    assert cause_of(on.beat(on.member_id, on.joined.generation)) is RefusalReason.RECALLED
    owns = on.join(on.member_id, owned={"foo": (0,)}, connection=CONNECTION)
    assert cause_of(owns) is RefusalReason.RECALLED
    assert on.waits(Ask) == 0
    back = on.join(connection=CONNECTION)
    assert on.waits(Ask) == 1
    assert is_waiting(back)
    assert isinstance(on.take(Ask).message, JoinGroupRequest)


def test_a_join_that_came_before_the_anchor_does_not_have_it_leave(on: Scene) -> None:
    """A new process was asked to release the group before its anchor was there, and the engine
    refuses the join in the step after. The recalled members still have their partitions, and a
    consumer that bypasses the gateway would get them (seed 2026207582)."""
    again = on.restart()
    again.hold(AskCoordinator, Ask, Describe)
    again.feed(Resumed())
    early = again.join(on.member_id)
    again.feed(MoveRequested(ReleaseRequest()))
    again.release(AskCoordinator)
    assert error_of(early) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert again.group.move.stage is ReleaseStage.RECALLING
    assert again.group.anchor.is_here
    assert again.asked(LeaveGroupRequest) == 0


def test_a_client_may_return_with_its_partitions(on: Scene) -> None:
    """franz-go keeps them for its next round, and the first one in the cluster has all members."""
    on.begin()
    owned = {"foo": (0,)}
    on.join(on.member_id, owned=owned, connection=CONNECTION)
    back = on.join(owned=owned, connection=CONNECTION)
    assert is_waiting(back)
    assert on.waits(Ask) == 1


def test_joins_are_relayed_once_the_group_is_open(on: Scene) -> None:
    on.begin()
    on.join(on.member_id)
    waits = on.join()
    assert is_waiting(waits)
    on.step(JoinGroupResponse(generation_id=9, protocol_name="x"))
    assert is_waiting(waits)
    on.step(SyncGroupResponse())
    assert waits.answer == Forwarded("released")


def test_a_native_join_waits_until_the_anchor_has_left(on: Scene) -> None:
    """A coordinator tells native consumers next to an anchor that there is no such group, which is
    fatal to them."""
    on.to_gathering()
    group = DescribedGroup(group_id=on.group.group_id, members=())
    while on.waits(Describe):
        step(on, group)
        on.wait_until(lambda: on.waits(Ask) or on.waits(Describe))
    native = on.native("n-1")
    assert is_waiting(native)
    on.step(LeaveGroupResponse())
    assert native.answer == Forwarded("released")


def test_a_held_join_of_a_client_that_has_joined_again_is_not_relayed(on: Scene) -> None:
    """A held JoinGroup might reach the cluster last, and replace the living static member."""
    on.begin()
    older = on.join(instance_id="one", connection=1)
    newer = on.join(instance_id="one", connection=2)
    assert cause_of(older) is RefusalReason.MOVING
    assert is_waiting(newer)


def test_a_join_that_waits_for_the_release_ends_with_its_connection(on: Scene) -> None:
    """Relayed later, it could replace a client that has joined since."""
    on.begin()
    waits = on.join()
    on.disconnect(waits)
    assert isinstance(waits.answer, Abandoned)
    on.join(on.member_id)
    on.step(JoinGroupResponse(generation_id=9, protocol_name="x"))
    on.step(SyncGroupResponse())
    assert isinstance(waits.answer, Abandoned)
    assert waits not in on.group.calls.waiting


def test_the_outcome_and_what_the_log_has(on: Scene) -> None:
    on.to_the_end()
    assert on.outcome is not None
    assert (on.outcome.is_released, on.outcome.reasons) == (True, ())
    assert on.log_has() == ReleaseState()
    (event,) = on.events_named("group_released")
    assert event["unowned_ms"] == on.outcome.unowned_ms
    assert on.events_named("group_forwarded") == [{"reason": "released"}]
    assert on.events_named("hosting_ended") == [{"cause": "released"}]
    assert not on.group.anchor.is_here


def test_a_released_group_stays_with_the_cluster(on: Scene) -> None:
    """This holds also when the group is empty, and after a restart."""
    on.to_the_end()
    on.in_cluster.remove_member()
    assert on.join().answer == Forwarded("released")
    again = on.restart()
    again.rules.released.add(again.group.group_id)  # as the start reads it
    assert again.join().answer == Forwarded("released")
    assert again.group.routing.decision.mode is Mode.FORWARDED


def test_an_operator_reclaims_an_empty_group(on: Scene) -> None:
    """Its next join hosts it again."""
    on.to_the_end()
    on.in_cluster.remove_member()
    assert on.claim().answer == ClaimReply()
    assert on.log_has() is None
    first = on.join()
    assert not isinstance(first.answer, Forwarded)


def test_a_group_that_is_being_released_is_not_adopted(on: Scene) -> None:
    on.begin()
    request = AdoptRequest()
    on.feed(MoveRequested(request))
    assert request.outcome is not None
    assert request.outcome.reasons == ("it is being released: try again",)


def test_commits_of_recalled_members_travel_under_the_anchors_ids(on: Scene) -> None:
    on.begin()
    call = on.commit(on.member_id, on.joined.generation)
    assert call.answer is not None
    (_token, ids) = on.sent[-1]
    assert ids is not None
    assert ids.member_id == on.in_cluster.member_id


def test_a_member_whose_session_is_over_is_unknown_although_the_release_continues(
    on: Scene,
) -> None:
    """A native member has a longer session."""
    on.native_member("n-1")
    on.begin()
    on.wait(on.rules.config.reconnect_timeout_ms)
    assert on.release_of.keeps_anchor
    assert error_of(on.beat(on.member_id, on.joined.generation)) is ErrorCode.UNKNOWN_MEMBER_ID
    (outcome,) = on.commit(on.member_id, on.joined.generation).outcomes.values()
    assert outcome.decision is not None
    assert outcome.decision.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert on.sent == []


def test_the_anchor_stays_until_every_commit_has_its_answer(on: Scene) -> None:
    """This holds for commits that were on their way when the release began, and for those of
    recalled members."""
    on.hold(StoreCommits)
    before = on.commit(on.member_id, on.joined.generation)
    on.begin()
    on.join(on.member_id)
    assert on.group.anchor.phase is AnchorPhase.STABLE
    assert on.waits(Ask) == 0
    assert is_waiting(before)
    on.release(StoreCommits)
    assert on.waits(Ask) == 1
    assert not on.group.anchor.is_here


def test_the_anchor_stays_until_the_commit_of_a_recalled_member_has_its_answer(on: Scene) -> None:
    """The commit has the ids of the anchor, and the engine does not know of it."""
    on.begin()
    on.hold(StoreCommits)
    call = on.commit(on.member_id, on.joined.generation)
    on.join(on.member_id)
    assert is_waiting(call)
    assert on.group.anchor.phase is AnchorPhase.STABLE
    assert on.waits(Ask) == 0
    on.release(StoreCommits)
    assert on.waits(Ask) == 1
    assert not on.group.anchor.is_here


def test_a_late_commit_of_a_recalled_member_takes_no_offset_back(on: Scene) -> None:
    """DEV D73: it has waited on a connection that its client has given up."""
    on.begin()
    request = (on.member_id, on.joined.generation, {"foo": [0]})
    newer = on.commits(request, connection=2)
    assert outcomes(newer) == [Outcome(decision=OffsetReply())]
    assert on.commits(request, connection=1).answer == Abandoned()
    assert len(on.sent) == 1


@pytest.mark.parametrize("is_being_written", [False, True])
def test_a_recalled_member_commits_nothing_after_another_one_has_had_the_group(
    on: Scene, *, is_being_written: bool
) -> None:
    """Its commit would undo those of the other one."""
    if is_being_written:
        on.hold(Write)
    on.begin()
    on.in_cluster.remove_member()
    on.in_cluster.generation += GENERATIONS_OF_A_CONSUMER
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert on.group.anchor.phase is AnchorPhase.STABLE
    on.release(Write)
    commit = on.commit(on.member_id, on.joined.generation)
    assert cause_of(commit) is RefusalReason.RECALLED
    assert not on.sent


def test_no_commit_of_a_stranger_travels_under_the_anchors_ids(on: Scene) -> None:
    """Together with that of a recalled member, only the latter is stored."""
    on.begin()
    generation, before = on.joined.generation, len(on.sent)
    on.commit("stranger", generation)
    assert len(on.sent) == before
    together = on.commits((on.member_id, generation, None), ("stranger", generation, None))
    own, strange = outcomes(together)
    assert on.sent[before:] == [(tokens(together)[0], ANY)]
    assert (own.refused, own.decision and own.decision.error) == (None, ErrorCode.NONE)
    assert strange.decision is not None
    assert strange.decision.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_recalled_commit_whose_answer_is_lost_stops_later_ones(on: Scene) -> None:
    on.begin()
    on.hold(StoreCommits)
    first = on.commit(on.member_id, on.joined.generation)
    on.take(StoreCommits)
    on.feed(commit_answer(pending_action_of(first), LOST))
    on.release(StoreCommits)
    assert cause_of(on.commit(on.member_id, on.joined.generation)) is RefusalReason.RECALLED


def test_a_recalled_commit_that_was_never_sent_stops_no_later_one(on: Scene) -> None:
    """No late arrival of it can take the offset back."""
    on.begin()
    on.is_broker_there = False
    on.commit(on.member_id, on.joined.generation)
    on.is_broker_there = True
    (outcome,) = outcomes(on.commit(on.member_id, on.joined.generation))
    assert (outcome.refused, outcome.is_away) == (None, False)
    assert len(on.sent) == 1


def test_a_release_ends_although_a_bug_has_lost_a_recalled_commit(on: Scene) -> None:
    """Its client is told that it failed, and no answer of the cluster is waited for: the anchor has
    rejoined, so the cluster refuses the lost commit."""
    on.begin()
    on.hold(StoreCommits)
    lost = on.commit(on.member_id, on.joined.generation)
    lost_ids = on.take(StoreCommits).ids
    on.pending.clear()
    on.record(on.group.start_again(on.now_ms))
    on.run()
    assert lost.answer == Unanswerable()
    on.commit(on.member_id, on.joined.generation)
    (again,) = (effect.ids for effect in on.pending if isinstance(effect, StoreCommits))
    assert lost_ids is not None
    assert again is not None
    assert again.member_id != lost_ids.member_id
    on.release(StoreCommits)
    on.run()
    on.join(on.member_id)
    assert isinstance(on.take(Ask).message, JoinGroupRequest)


def test_a_rebalance_under_way_is_waited_for(on: Scene) -> None:
    rejoin = on.join(on.member_id, topics=("foo", "bar"))
    assert on.outcome is None
    on.begin()
    on.wait(1_000)
    joined = rejoin.answer
    assert joined is not None
    assert on.log_has() is None
    on.sync(on.member_id, on.joined.generation + 1, {on.member_id: {"foo": (0,)}})
    assert on.log_has() is not None


def test_a_rebalance_without_end_refuses_the_release(on: Scene) -> None:
    on.join(on.member_id, topics=("foo", "bar"))
    on.begin()
    for number in range(SETTLE_MAX_MS // 1_000):
        on.wait(1_000)
        on.join(on.member_id, topics=("foo", f"bar-{number}"))
    assert on.outcome is not None
    assert on.outcome.reasons == ("its rebalance is not over after 30 s: try again",)
    assert on.group.is_live


NO_NEW_PROTOCOL = NewProtocol(why_no_natives="the cluster does not have it")
NOT_MIXED = NewProtocol(why_not_mixed="the cluster keeps the two apart")


def test_native_members_are_named_if_the_cluster_takes_none(on: Scene) -> None:
    on.native_member("n-1")
    on.request.new_protocol = NO_NEW_PROTOCOL
    on.begin()
    assert on.outcome is not None
    assert on.outcome.reasons == (
        "client at 127.0.0.1 (n-1) uses the new protocol, and the cluster does not have it: roll"
        " it back to the classic one first",
    )
    assert on.group.is_live


def test_classic_members_among_native_ones_are_named_if_the_cluster_does_not_mix_them(
    on: Scene,
) -> None:
    on.native_member("n-1")
    on.request.new_protocol = NOT_MIXED
    on.begin()
    assert on.outcome is not None
    assert on.outcome.reasons == (
        f"client at 127.0.0.1 ({on.member_id}) uses the classic protocol next to native members,"
        " and the cluster keeps the two apart: roll it to the new one first",
    )


def test_a_classic_group_needs_no_new_protocol(on: Scene) -> None:
    on.request.new_protocol = NO_NEW_PROTOCOL
    on.to_the_end()
    assert on.outcome is not None
    assert on.outcome.is_released


def test_native_members_reconcile_and_rejoin_in_the_cluster() -> None:
    on = HostedScene()
    epoch = on.native_member("n-1").member_epoch
    on.wait(1_000)
    on.hold(Ask, Describe)
    request = ReleaseRequest(new_protocol=NOT_MIXED)
    on.feed(MoveRequested(request))
    reply = on.native("n-1", epoch).answer
    assert isinstance(reply, ConsumerHeartbeatReply)
    assert (reply.member_epoch, reply.assignment) == (epoch, frozenset())
    commit = on.commit("n-1", epoch)
    assert on.sent[-1][1] is not None
    assert commit.answer is not None
    assert cause_of(on.native("n-1", epoch, owned={})) is RefusalReason.FENCED
    back = on.native("n-1", 0)
    assert is_waiting(back)
    ask = on.take(Ask)
    assert isinstance(ask.message, LeaveGroupRequest)
    assert cause_of(on.commit("n-1", epoch)) is RefusalReason.FENCED
    on.feed(Done(ask, LeaveGroupResponse()))
    assert back.answer == Forwarded("released")
    on.feed(NATIVE_IS_IN)
    assert request.outcome is not None
    assert request.outcome.is_released


def test_a_late_join_does_not_give_a_native_members_partitions_to_the_cluster() -> None:
    on = HostedScene()
    epoch = on.native_member("n-1").member_epoch
    on.hold(Ask, Describe)
    on.feed(MoveRequested(ReleaseRequest(new_protocol=NOT_MIXED)))
    assert cause_of(on.native("n-1", 0)) is RefusalReason.FENCED
    on.wait(1_000)
    assert on.waits(Ask) == 0
    reply = on.native("n-1", epoch).answer
    assert isinstance(reply, ConsumerHeartbeatReply)
    assert reply.assignment == frozenset()


def _begin_with_native(*, connection: int) -> HostedScene:
    """A group that is being released, with a native member that has joined on this connection."""
    on = HostedScene()
    on.native("n-1", connection=connection)
    on.wait(1_000)
    on.hold(Ask, Describe)
    on.feed(MoveRequested(ReleaseRequest(new_protocol=NOT_MIXED)))
    return on


def test_two_late_joins_do_not_give_a_native_members_partitions_to_the_cluster() -> None:
    """Both have waited on connections that the client had given up before it joined."""
    on = _begin_with_native(connection=3)
    assert cause_of(on.native("n-1", 0, connection=1)) is RefusalReason.FENCED
    assert cause_of(on.native("n-1", 0, connection=2)) is RefusalReason.FENCED
    assert on.waits(Ask) == 0
    assert cause_of(on.native("n-1", 0, connection=3)) is RefusalReason.FENCED
    assert is_waiting(on.native("n-1", 0, connection=3))
    assert on.waits(Ask) == 1


def test_a_native_member_may_continue_with_an_older_connection() -> None:
    """Each broker has one, and the client has turned to another broker."""
    on = _begin_with_native(connection=3)
    assert isinstance(on.native("n-1", 1, connection=2).answer, ConsumerHeartbeatReply)
    assert cause_of(on.native("n-1", 1, owned={}, connection=2)) is RefusalReason.FENCED
    assert is_waiting(on.native("n-1", 0, connection=2))
    assert on.waits(Ask) == 1


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_late_leave_does_not_give_a_native_members_partitions_to_the_cluster(epoch: int) -> None:
    """The client gave its connection up while an earlier commit there had no answer, and has joined
    again."""
    on = _begin_with_native(connection=2)
    late = on.native("n-1", epoch, connection=1)
    assert error_of(late) is ErrorCode.FENCED_MEMBER_EPOCH
    assert on.waits(Ask) == 0
    assert error_of(on.native("n-1", epoch, connection=2)) is ErrorCode.NONE
    assert on.waits(Ask) == 1


def test_a_late_join_does_not_give_a_classic_members_partitions_to_the_cluster(on: Scene) -> None:
    """An eager member states no generation, and owns nothing whenever it joins."""
    rejoined = on.join(on.member_id, connection=2)
    on.wait(5_000)
    joined = rejoined.answer
    assert isinstance(joined, JoinGroupReply)
    on.sync(on.member_id, joined.generation, {on.member_id: {"foo": (0, 1, 2)}})
    on.begin()
    assert on.join(on.member_id, connection=1).answer == Abandoned()
    assert on.waits(Ask) == 0
    assert cause_of(on.join(on.member_id, connection=2)) is RefusalReason.RECALLED
    assert on.waits(Ask) == 1


def test_a_late_join_does_not_give_a_static_members_partitions_to_the_cluster() -> None:
    on = HostedScene()
    joining = on.join(instance_id="i", connection=2)
    on.wait(5_000)
    joined = joining.answer
    assert isinstance(joined, JoinGroupReply)
    on.sync(joined.member_id, joined.generation, {joined.member_id: {"foo": (0, 1, 2)}})
    on.wait(1_000)
    on.hold(Ask, Describe)
    on.feed(MoveRequested(ReleaseRequest()))
    assert on.join(instance_id="i", connection=1).answer == Abandoned()
    assert on.waits(Ask) == 0
    on.join(instance_id="i", connection=3)
    assert on.waits(Ask) == 1


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("comes", [True, False])
def test_the_first_member_in_the_cluster_is_a_native_one(
    on: Scene, *, comes: bool, is_killed: bool
) -> None:
    """The cluster does not convert a group that librdkafka's cooperative assignor has led. A
    gateway that is killed meanwhile leaves word of that."""
    epoch = on.native_member("n-1").member_epoch
    on.begin()
    on.native("n-1", epoch, owned={})
    on.native("n-1", epoch, owned={})
    on.native("n-1", 0)
    on.wait(4_000)  # the heartbeat has been answered
    on.join(on.member_id)
    assert on.log_has() == ReleaseState(guard_id=ANY, is_native_due=True)
    last = on.restart_after_kill() if is_killed else on
    step(last, LeaveGroupResponse())
    last.wait(1_000)
    classic = last.join()
    assert is_waiting(classic)
    if comes:
        assert last.native("n-1", 0).answer == Forwarded("released")
        assert is_waiting(classic)
        last.feed(NATIVE_IS_IN)
    else:
        last.wait(NATIVE_FIRST_MAX_MS)
        classic = last.join()
    last.wait(1)
    assert isinstance(classic.answer, Forwarded)
    assert last.events_named("group_released")
    assert log_has(last) == ReleaseState()


def test_a_native_member_that_has_left_is_not_waited_for(on: Scene) -> None:
    epoch = on.native_member("n-1").member_epoch
    on.begin()
    on.native("n-1", -1)
    on.native("n-1", epoch)
    on.join(on.member_id)
    assert on.log_has() == ReleaseState(guard_id=ANY)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_static_member_that_left_temporarily_is_not_waited_for(*, is_killed: bool) -> None:
    """Its client has given up everything, and comes back in the cluster."""
    on = HostedScene()
    on.native("n-1", instance_id="one")
    on.native("n-1", -2, instance_id="one")
    on.hold(Ask, Describe)
    request_release(on)
    last = next_process(on) if is_killed else on
    ask = last.take(Ask)
    assert isinstance(ask.message, LeaveGroupRequest)
    back = last.native("n-2", instance_id="one")
    last.feed(Done(ask, LeaveGroupResponse()))
    assert back.answer == Forwarded("released")


def test_silent_members_of_an_unattended_group_are_waited_for(on: Scene) -> None:
    """Another gateway has hosted it: the anchor's place is taken over."""
    again = on.restart_after_kill()
    request = ReleaseRequest(is_unattended=True)
    again.feed(MoveRequested(request))
    again.wait(SESSION_MS - 1)
    assert again.group.anchor.is_here
    assert again.waits(Ask) == 0
    again.wait(1)
    step(again, JoinGroupResponse(generation_id=9, protocol_name="x"))
    step(again, SyncGroupResponse())
    step(again, LeaveGroupResponse())
    assert request.outcome is not None
    assert request.outcome.is_released


def test_an_unattended_release_does_not_take_its_own_waiting_for_a_pause(on: Scene) -> None:
    """Nothing else looks at the clock of that process, and no client waits for it."""
    again = on.restart_after_kill()
    request = ReleaseRequest(is_unattended=True)
    again.feed(MoveRequested(request))
    again.feed(Paused(again.now_ms + 15_000))
    again.wait(SESSION_MS)
    assert again.waits(Ask) == 1


def test_a_release_continues_when_the_last_session_ends_without_an_anchor(on: Scene) -> None:
    """A consumer is in the cluster's group by then. Nothing else wakes the release."""
    on.begin()
    on.coordinator.groups[on.group.group_id] = FakeGroup(
        protocol_type="consumer", protocol="range", member_id="outsider", is_synced=True
    )
    again = on.restart_after_kill()
    again.wait(RECONNECT_MS - 1)
    assert not again.group.anchor.is_here
    assert again.events_named("group_released") == []
    again.wait(1)
    assert again.events_named("group_released")


def next_process(before: HostedScene) -> HostedScene:
    """The gateway after a restart, which finds the group in its log."""
    after = before.restart()
    after.hold(Ask, Describe)
    if after.records:
        after.feed(Resumed())
    return after


def request_release(on: HostedScene, *, is_unattended: bool = False) -> ReleaseRequest:
    """The request to release a group."""
    request = ReleaseRequest(is_unattended=is_unattended)
    on.feed(MoveRequested(request))
    return request


def outcome_of(request: ReleaseRequest) -> ReleaseOutcome | None:
    """What has become of a request so far."""
    return request.outcome


def leave(on: HostedScene) -> None:
    """Carry out the LeaveGroup of a release."""
    ask = on.take(Ask)
    assert isinstance(ask.message, LeaveGroupRequest)
    on.feed(Done(ask, on.coordinator.answer(ask.message)))


def situation_or_none(call: Call) -> RefusalReason | None:
    """Why the gateway refused the call; None if the engine has answered."""
    return None if isinstance(call.answer, Reply) else cause_of(call)


def test_a_release_takes_the_place_of_the_predecessors_anchor_first(on: Scene) -> None:
    after = next_process(on)
    after.hold(AskCoordinator)
    request = request_release(after)
    assert log_has(after) is None
    assert outcome_of(request) is None
    after.release(AskCoordinator)
    assert log_has(after) is not None
    after.join(on.member_id)
    assert after.waits(Ask) == 1
    assert outcome_of(request) is None
    assert on.in_cluster.metadata == after.rules.gateway.join_metadata.metadata


@pytest.mark.parametrize("is_unattended", [False, True])
def test_an_empty_group_is_released_once_the_predecessors_anchor_has_left(
    on: Scene, *, is_unattended: bool
) -> None:
    on.leave(on.member_id)
    assert on.in_cluster.member_id
    after = next_process(on)
    request = request_release(after, is_unattended=is_unattended)
    assert after.count_requests(JoinGroupRequest)
    assert outcome_of(request) is None
    leave(after)
    assert request.outcome is not None
    assert request.outcome.is_released
    assert not on.in_cluster.member_id


def test_an_anchor_that_failed_to_leave_is_looked_for(on: Scene) -> None:
    on.leave(on.member_id)
    on.coordinator_failure = "it is away"
    on.feed(Leave())
    assert "anchor_left_behind" in on.log_names()
    assert not on.group.anchor.is_here
    on.coordinator_failure = None
    on.begin()
    assert outcome_of(on.request) is None
    leave(on)
    assert on.outcome is not None
    assert on.outcome.is_released
    assert not on.in_cluster.member_id


def test_a_bug_after_the_hand_over_leaves_no_anchor_behind(on: Scene) -> None:
    on.begin()
    on.hold(Write)
    on.join(on.member_id)
    assert not on.group.anchor.is_here
    on.pending.clear()
    on.record(on.group.start_again(on.now_ms))
    on.release(Write)
    on.wait(100)
    on.join(on.member_id)
    assert on.group.move.stage is not None
    assert isinstance(on.take(Ask).message, JoinGroupRequest)
    assert on.log_has() == ReleaseState(guard_id=on.in_cluster.member_id)


def test_a_late_anchor_in_the_place_of_the_released_one_leaves_as_well(on: Scene) -> None:
    """The coordinator has received a JoinGroup of the anchor after those of the release."""
    on.to_gathering()
    group = DescribedGroup(group_id=on.group.group_id, members=())
    on.step(group)
    on.wait(5_000)
    on.step(group)
    on.wait(100)
    on.in_cluster.member_id = "groupferry-anchor-late"
    leave(on)
    assert on.group.move.stage is ReleaseStage.LEAVING
    leave(on)
    assert on.outcome is not None
    assert on.outcome.is_released
    assert not on.in_cluster.member_id


def test_a_group_with_another_gateways_anchor_is_not_released(on: Scene) -> None:
    after = next_process(on)
    after.found = anchored("log-2", 0)
    request = request_release(after)
    assert request.outcome is not None
    (reason,) = request.outcome.reasons
    assert "with the state log log-2" in reason
    assert log_has(after) is None


def test_a_release_is_refused_if_the_cluster_does_not_say_who_is_in_the_group() -> None:
    on = HostedScene()
    on.found = LookupFailed("it is away")
    request = request_release(on)
    on.wait(SETTLE_MAX_MS - 1)
    assert outcome_of(request) is None
    on.wait(1)
    assert request.outcome is not None
    assert request.outcome.reasons == ("the cluster does not say who is in the group: try again",)


def test_an_anchor_that_a_failover_brings_back_leaves_again(on: Scene) -> None:
    """An old coordinator answers LeaveGroup before that is durable."""
    before = replace(on.in_cluster)
    on.to_the_end()
    on.coordinator.groups[on.group.group_id] = before
    decision = on.group.routing.take(on.coordinator.look(on.group.group_id), on.now_ms)
    assert decision.has_anchor
    again = request_release(on)
    assert again.outcome is not None
    assert again.outcome.is_released
    assert not on.in_cluster.member_id
    assert on.log_has() == ReleaseState()


def test_a_setting_fences_nobody_and_the_group_is_released_as_by_an_operator(on: Scene) -> None:
    after = on.restart(forward=("*",))
    after.hold(Ask, Describe)
    after.feed(Resumed())
    assert situation_or_none(after.beat(on.member_id, on.joined.generation)) is None
    after.wait(SESSION_MS // 2)
    assert situation_or_none(after.beat(on.member_id, on.joined.generation)) is None
    request = request_release(after)
    after.join(on.member_id)
    step(after, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    step(after, LeaveGroupResponse())
    assert request.outcome is not None
    assert request.outcome.is_released
    assert after.group.routing.is_released
    assert after.events_named("group_taken") == []


def test_a_group_that_no_setting_hosts_any_more_stays_hosted_while_it_has_members(
    on: Scene,
) -> None:
    after = on.restart(host=())
    after.feed(Resumed())
    for _ in range(3):
        assert situation_or_none(after.beat(on.member_id, on.joined.generation)) is None
        after.wait(SESSION_MS // 2)
    assert after.group.is_live
    assert after.group.anchor.phase is AnchorPhase.STABLE


def test_a_native_member_that_joins_meanwhile_is_named_if_the_cluster_takes_none(
    on: Scene,
) -> None:
    """The engine decides: the member is not in the group yet when the release is ordered."""
    on.hold(Write)
    on.native("n-1")
    on.request.new_protocol = NO_NEW_PROTOCOL
    on.begin()
    assert outcome_of(on.request) is None
    on.release(Write)
    assert on.outcome is not None
    (reason,) = on.outcome.reasons
    assert reason.startswith("client at 127.0.0.1 (n-1) uses the new protocol")
    assert on.log_has() is None
    assert on.group.is_live


def test_a_log_that_fails_refuses_the_release(on: Scene) -> None:
    on.damage = Damage.NONE
    on.begin()
    assert on.outcome is not None
    assert on.outcome.reasons == ("the state log failed: try again",)
    assert on.group.is_live


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_uncertain_beginning_is_reported_once_the_log_is_read(
    on: Scene, *, is_stored: bool
) -> None:
    """The log has not confirmed the write, and may have it. The outcome must be true."""
    on.hold(Write, Load)
    on.begin()
    write = on.take(Write)
    on.records += write.batch.durable if is_stored else ()
    on.load_failure = "the disk is slow"
    on.feed(Failed(write, Damage.UNSURE))
    on.release(Write, Load)
    assert on.outcome is None
    on.load_failure = None
    on.wait(LOAD_RETRY_MS)
    assert (on.release_of.stage is ReleaseStage.RECALLING) is is_stored
    assert on.group.is_live is not is_stored
    outcome = on.request.outcome
    assert (outcome is None) is is_stored
    assert outcome is None or outcome.reasons == ("the state log failed: try again",)


def test_a_gateway_that_is_shutting_down_refuses_the_release(on: Scene) -> None:
    on.feed(Ending())
    on.begin()
    assert on.outcome is not None
    assert not on.outcome.is_released
    assert any("shutting down" in reason for reason in on.outcome.reasons)


def test_a_killed_gateway_recalls_the_members_again(on: Scene) -> None:
    """Its anchor is taken over first: commits need it."""
    on.begin()
    again = on.restart()
    again.hold(Ask, Describe)
    again.feed(Resumed(is_moving=True))
    call = again.beat(on.member_id, on.joined.generation)
    again.wait(100)
    assert cause_of(call) is RefusalReason.RECALLED
    assert again.group.anchor.is_here
    assert "release_resumed" in again.log_names()
    again.join(on.member_id)
    again.wait(100)
    assert again.waits(Ask) == 1


def test_a_gateway_that_was_killed_after_the_hand_over_takes_no_anchor_again(on: Scene) -> None:
    """An anchor that stays would keep out the members, which may be back in the cluster already."""
    on.begin()
    on.join(on.member_id)
    assert on.log_has() == ReleaseState(guard_id=on.in_cluster.member_id)
    again = on.restart_after_kill()
    again.wait(1_000)
    assert again.count_requests(JoinGroupRequest) == 0
    assert not again.group.anchor.is_here
    leave = again.take(Ask).message
    assert isinstance(leave, LeaveGroupRequest)
    (anchor,) = leave.members
    there = on.in_cluster
    assert (anchor.member_id, anchor.group_instance_id) == (there.member_id, there.instance_id)


def test_an_empty_group_is_released_at_once() -> None:
    on = HostedScene()
    on.hold(Ask, Describe)
    request = ReleaseRequest()
    on.feed(MoveRequested(request))
    assert request.outcome is not None
    assert request.outcome.is_released
    assert request.outcome.unowned_ms is None, "it has no partitions"
    assert on.group.routing.is_released


def test_an_admin_does_not_drop_the_anchor_meanwhile(on: Scene) -> None:
    on.begin()
    assert cause_of(on.call(on.free().api, None, is_placed=True)) is RefusalReason.MOVING
    assert on.group.anchor.is_here


def test_the_error_of_a_recalled_heartbeat_is_that_of_a_rebalance() -> None:
    assert code_for(RefusalReason.RECALLED, GroupApi.HEARTBEAT) is ErrorCode.REBALANCE_IN_PROGRESS
