"""A call of a client, and the commits of one call."""

import pytest

from coordinator.interface.events import HeartbeatReceived
from coordinator.interface.replies import HeartbeatReply
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call, Commit, Commits, LearnTopics, Unanswerable
from gateway.hosting.states import CommitPhase, Stage


def a_commit() -> Commit:
    """A commit that the engine has not checked."""
    return Commit(
        make=lambda token, _: HeartbeatReceived(
            token=token, member_id="m", instance_id=None, generation=1
        ),
        topic_names=frozenset({"foo"}),
        has_member=True,
        order_keys=frozenset({"m"}),
    )


def test_an_answer_ends_the_errand() -> None:
    """The client's task has nothing left to do for the call."""
    call = Call(api=GroupApi.HEARTBEAT)
    pending_action = LearnTopics(call)
    call.pending_action = pending_action
    call.end(HeartbeatReply())
    assert call.pending_action is not pending_action
    assert (call.answer, call.stage) == (HeartbeatReply(), Stage.ANSWERED)


def test_a_call_is_answered_once() -> None:
    """A second answer would be a bug."""
    call = Call(api=GroupApi.HEARTBEAT)
    call.end(Unanswerable())
    with pytest.raises(ValueError, match="does not move from Answered"):
        call.end(HeartbeatReply())


def test_two_calls_have_different_tokens() -> None:
    """The engine tells requests apart by their tokens, commits included."""
    tokens = [Call(api=GroupApi.JOIN).token, Call(api=GroupApi.JOIN).token, a_commit().token]
    assert len(set(tokens)) == len(tokens)


def test_commits_keep_the_order_of_their_client() -> None:
    """The cluster stores them in this order."""
    commits = [a_commit() for _ in range(3)]
    call = Commits(api=GroupApi.COMMIT, commits={commit.token: commit for commit in commits})
    commits[1].move(CommitPhase.ENDED)
    assert call.in_phase(CommitPhase.RECEIVED) == [commits[0], commits[2]]
    assert list(call.outcomes) == [commit.token for commit in commits]


def test_a_commit_is_not_sent_before_the_engine_has_accepted_it() -> None:
    """The engine first notes it as in flight (DEV D34)."""
    with pytest.raises(ValueError, match="does not move from Received to Sent"):
        a_commit().move(CommitPhase.SENT)
