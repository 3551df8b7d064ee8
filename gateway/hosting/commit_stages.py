"""The stages of commits: queued, accepted by the engine, and stored by the cluster.

An accepted commit holds its partitions until it has certainly ended.
"""

from coordinator.interface.events import OffsetCommitEnded
from gateway.hosting.answers import Situation
from gateway.hosting.calls import (
    Abandoned,
    CommitCodes,
    Commits,
    ProbeBroker,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.commits import STORED
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.move import Move
from gateway.hosting.open_calls import MEMBER_PATIENCE_MS, OpenCalls
from gateway.hosting.states import CommitPhase, Stage

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_SENT, _ENDED = CommitPhase.SENT, CommitPhase.ENDED


class CommitStages:
    """Moves commits on until they wait for something."""

    def __init__(self, parts: GroupParts, move: Move, calls: OpenCalls) -> None:
        self._engine, self._anchor = parts.engine, parts.anchor
        self._standing, self._can_anchor = parts.standing, parts.rules.can_anchor
        self._effects = parts.effects
        self._move = move
        self._calls = calls
        self._commits = calls.commits

    # -- the short way of a group at rest --------------------------------------------------------

    def send_at_rest(self, call: Commits, now_ms: int) -> StoreCommits | None:
        """Accept a commit to a live group. Returns the errand that stores it; None if it came with
        others, has to wait, or may be refused."""
        ids = self._anchor.ids(now_ms)
        can_send = self._engine.is_live and (ids is not None or not self._can_anchor)
        if not can_send or self._calls.is_ending:
            return None
        commit = call.only
        if commit is None or self._commits.has_earlier(call) or self._commits.is_abandoned(call):
            return None
        commit.event = commit.make(commit.token, self._engine.topics)
        decided = self._engine.decide_at_rest(commit.event, now_ms)
        if decided is None or decided[1] is None:
            return None
        self._calls.by_token[call.token] = call
        call.asked_ms, call.was_held = now_ms, self._anchor.is_here
        self._commits.queue(call)
        self._commits.on_decision(commit, decided[1])
        call.move(Stage.STORING)
        return self._commits.send(call, (commit,), ids, now_ms)

    def end_at_rest(self, call: Commits, codes: CommitCodes, now_ms: int) -> bool:
        """Answer a commit that the cluster has stored. False if anything waits for it, or if the
        cluster gave any other answer."""
        commit = call.only
        if commit is None or commit.phase is not _SENT or call.stage is not Stage.STORING:
            return False
        if codes[commit.token] != STORED or self._commits.has_later(call):
            return False
        ended = OffsetCommitEnded(commit=commit.token)
        if self._engine.decide_at_rest(ended, now_ms) is None:
            return False
        commit.move(_ENDED)
        del self._calls.by_token[call.token]
        self._commits.on_answer(call)
        call.end(call.outcomes)
        return True

    # -- the long way ----------------------------------------------------------------------------

    def queue(self, call: Commits, now_ms: int) -> None:
        """Wait until earlier commits of the same member have been answered."""
        if self._commits.is_abandoned(call):
            self._calls.answer(call, Abandoned())
        elif self._commits.is_next(call):
            call.give_up_ms = None
            call.move(Stage.PLACING)
        else:
            self._calls.wait_at_most(call, now_ms + MEMBER_PATIENCE_MS, now_ms)

    def store_if_decided(self, call: Commits, now_ms: int) -> None:
        """Store the accepted commits once all of the call are decided, unless their member has
        joined on a newer connection meanwhile."""
        if call.answer is not None or call.in_phase(CommitPhase.RECEIVED):
            return
        if self._commits.is_abandoned(call):
            self._commits.abandon(call, now_ms)
            self._calls.answer(call, Abandoned())
        else:
            call.move(Stage.STORING)
            self.store(call, now_ms)

    def store(self, call: Commits, now_ms: int) -> None:
        """Send the accepted commits on the client's own connection. If the cluster refuses the
        anchor, the anchor is repaired and the commits are sent again; the client never sees that
        error."""
        accepted = call.in_phase(CommitPhase.ACCEPTED)
        if call.errand is not None or call.in_phase(_SENT):
            return
        if not accepted:
            self._calls.answer(call, Unanswerable() if call.has_failed else call.outcomes)
            return
        if not self._can_anchor:
            self._effects.append(self._commits.send(call, accepted, None, now_ms))
            return
        if call.is_overtaken:
            self._calls.refuse(call, Situation.NOT_ANCHORED, self._anchor.why)
            return
        needs_ids = (
            self._engine.is_live
            or self._anchor.is_here
            or any(commit.has_member for commit in accepted)
            or self._standing.is_left_behind(call, now_ms)
        )
        if needs_ids is None:
            self._calls.wait_for_look(call)
        elif not needs_ids:
            self._effects.append(self._commits.send(call, accepted, None, now_ms))
        elif not self._calls.has_anchor_place(call):
            pass
        elif (ids := self._calls.anchor_ids(call, MEMBER_PATIENCE_MS, now_ms)) is not None:
            self._effects.append(self._commits.send(call, accepted, ids, now_ms))
        elif call.answer is None and not call.is_probed:
            self._calls.run_errand(ProbeBroker(call))

    def on_stored(self, call: Commits, codes: CommitCodes, now_ms: int) -> None:
        """The cluster has answered commits, or will not."""
        if call.stage is Stage.PLACING:
            self._calls.answer(call, self._move.answer_stored(call, codes))
            return
        self._commits.on_stored(call, codes, now_ms)
        self.store(call, now_ms)

    def abandon(self, call: Commits, now_ms: int) -> None:
        """Nobody waits for the commits any more."""
        self._move.lose(call)
        self._commits.abandon(call, now_ms)
