"""Commits to the group of a HostedScene, and what became of them."""

from collections.abc import Mapping
from typing import Any

from gateway.hosting.calls import Call, Commits, Outcome, PendingAction, StoreCommits
from gateway.hosting.inputs import Done
from gateway.hosting.states import CommitPhase
from tests.support.hosted_scene import HostedScene

OK = frozenset({0})
"""The cluster's codes for a commit that it has stored."""


def pending_action_of(call: Call) -> PendingAction:
    """The pending action that the call waits for."""
    assert call.pending_action is not None, f"still {call.stage}"
    return call.pending_action


def commit_answer(pending_action: PendingAction, codes: frozenset[int] | str) -> Done:
    """The cluster's answer to all commits of an action."""
    assert isinstance(pending_action, StoreCommits)
    return Done(pending_action, dict.fromkeys(pending_action.commits, codes))


def outcomes(call: Commits) -> list[Outcome]:
    """What became of the commits, in order."""
    assert isinstance(call.answer, Mapping), call.answer
    return [call.answer[token] for token in call.commits]


def phases(call: Commits) -> list[CommitPhase]:
    """How far the commits have got."""
    return [commit.phase for commit in call.commits.values()]


def in_flight(scene: HostedScene) -> set[int]:
    """The commits that hold their partitions."""
    return set(scene.group.engine.core.state.commits)


def tokens(call: Commits) -> list[int]:
    """The commits' tokens, in order."""
    return list(call.commits)


def member_commit(scene: HostedScene, count: int = 1, **how: Any) -> Commits:
    return scene.commits(*[("n", 2, {"foo": [0]})] * count, **how)


def ids_of(scene: HostedScene) -> object:
    return scene.group.anchor.ids(scene.now_ms)
