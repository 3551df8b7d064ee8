"""Commits of recalled members while their group is released."""

from unittest.mock import ANY

import pytest

from coordinator.interface.replies import (
    OffsetReply,
)
from gateway.hosting.anchor import GENERATIONS_OF_A_CONSUMER
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import (
    LOST,
    Abandoned,
    Outcome,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.effects import Ask, Write
from gateway.hosting.states import AnchorPhase
from gateway.hosting.upstream_member import HEARTBEAT_INTERVAL_MS
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest
from tests.gateway.hosting.release_scene import ReleaseScene, is_waiting
from tests.gateway.hosting.scene_commits import commit_answer, outcomes, pending_action_of, tokens
from tests.support.hosted_scene import cause_of, error_of


@pytest.fixture
def on() -> ReleaseScene:
    return ReleaseScene()


def test_commits_of_recalled_members_travel_under_the_anchors_ids(on: ReleaseScene) -> None:
    on.begin()
    call = on.commit(on.member_id, on.joined.generation)
    assert call.answer is not None
    (_token, ids) = on.sent[-1]
    assert ids is not None
    assert ids.member_id == on.in_cluster.member_id


def test_a_member_whose_session_is_over_is_unknown_although_the_release_continues(
    on: ReleaseScene,
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


def test_the_anchor_stays_until_every_commit_has_its_answer(on: ReleaseScene) -> None:
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


def test_the_anchor_stays_until_the_commit_of_a_recalled_member_has_its_answer(
    on: ReleaseScene,
) -> None:
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


def test_a_late_commit_of_a_recalled_member_takes_no_offset_back(on: ReleaseScene) -> None:
    """DEV D73: it has waited on a connection that its client has given up."""
    on.begin()
    request = (on.member_id, on.joined.generation, {"foo": [0]})
    newer = on.commits(request, connection=2)
    assert outcomes(newer) == [Outcome(decision=OffsetReply())]
    assert on.commits(request, connection=1).answer == Abandoned()
    assert len(on.sent) == 1


@pytest.mark.parametrize("is_being_written", [False, True])
def test_a_recalled_member_commits_nothing_after_another_one_has_had_the_group(
    on: ReleaseScene, *, is_being_written: bool
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


def test_no_commit_of_a_stranger_travels_under_the_anchors_ids(on: ReleaseScene) -> None:
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


def test_a_recalled_commit_whose_answer_is_lost_stops_later_ones(on: ReleaseScene) -> None:
    on.begin()
    on.hold(StoreCommits)
    first = on.commit(on.member_id, on.joined.generation)
    on.take(StoreCommits)
    on.feed(commit_answer(pending_action_of(first), LOST))
    on.release(StoreCommits)
    assert cause_of(on.commit(on.member_id, on.joined.generation)) is RefusalReason.RECALLED


def test_a_recalled_commit_that_was_never_sent_stops_no_later_one(on: ReleaseScene) -> None:
    """No late arrival of it can take the offset back."""
    on.begin()
    on.is_broker_there = False
    on.commit(on.member_id, on.joined.generation)
    on.is_broker_there = True
    (outcome,) = outcomes(on.commit(on.member_id, on.joined.generation))
    assert (outcome.refused, outcome.is_away) == (None, False)
    assert len(on.sent) == 1


def test_a_release_ends_although_a_bug_has_lost_a_recalled_commit(on: ReleaseScene) -> None:
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
