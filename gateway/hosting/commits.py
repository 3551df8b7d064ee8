"""The commits of one group, from the engine's decision to their certain end.

An accepted commit holds its partitions until it has ended (DEV D34). If its answer is lost it is a
stray, which ends once the cluster refuses it: when the anchor has a new member id.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.replies import OffsetReply, Reply
from coordinator.interface.volatile_records import Token
from gateway.hosting.anchor import ABOUT_THE_ANCHOR, Anchor
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import (
    LOST,
    Commit,
    CommitCodes,
    Commits,
    Outcome,
    Refused,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.identity import AnchorIds
from gateway.hosting.logged_engine import LoggedEngine
from gateway.hosting.newest_connections import NewestConnections
from gateway.hosting.states import CommitPhase, Stage
from kafka_codecs.error_codes import ErrorCode

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_RECEIVED, _ACCEPTED, _SENT = CommitPhase.RECEIVED, CommitPhase.ACCEPTED, CommitPhase.SENT
_DECIDING = Stage.DECIDING

# A member that was removed, or that left while an earlier commit had no answer, may return with the
# same id and epoch.
_TELLS_CONNECTION = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)

STORED = frozenset({int(ErrorCode.NONE)})
"""The cluster's codes for a commit of which it has stored every partition."""


class CommitsInFlight:
    """Moves each commit from phase to phase, and tells the engine when it has ended."""

    def __init__(
        self,
        engine: LoggedEngine,
        anchor: Anchor,
        newest: NewestConnections,
        members: Callable[[], Collection[str]],
        *,
        can_anchor: bool,
    ) -> None:
        """`newest`: see `GroupParts.committed_on`. `members`: the ids of the members that may
        commit. `can_anchor`: whether an anchor ends strays, and not a timer of the engine."""
        self._engine = engine
        self._members = members
        self._anchor = anchor
        self._can_anchor = can_anchor
        self._queues: dict[object, dict[Token, Commits]] = {}
        """The calls without an answer under each of their keys, the earliest first."""
        self._newest = newest
        self.next_up: list[Commits] = []
        """Calls that may no longer have an earlier one to wait for."""

    def queue(self, call: Commits) -> None:
        """Queue the call behind those with a key in common.

        They came on other connections: a client may commit again on a new connection before the
        gateway notices that the old one is gone. Stored last, the older commit would take the
        offset back.
        """
        for commit in call.commits.values():
            commit.call = call
        for key in call.order_keys:
            self._queues.setdefault(key, {})[call.token] = call

    def is_next(self, call: Commits) -> bool:
        """Whether all earlier calls with a key in common have been answered."""
        return all(next(iter(self._queues[key])) == call.token for key in call.order_keys)

    def has_earlier(self, call: Commits) -> bool:
        """Whether the call would not be next."""
        return not self._queues.keys().isdisjoint(call.order_keys)

    def is_abandoned(self, call: Commits) -> bool:
        """Whether a member of the call has committed on another connection when this one was open
        already, or has tried in vain behind an earlier commit, or while it was not in the group, or
        has joined there as a native member (DEV D73). This one may have held an older commit back,
        behind a parked JoinGroup."""
        number = call.connection
        return number is not None and self._newest.has_newer(call.order_keys, number)

    def has_later(self, call: Commits) -> bool:
        """Whether other calls wait for the answer to this one."""
        for key in call.order_keys:  # noqa: SIM110  # every commit comes here
            if len(self._queues[key]) > 1:
                return True
        return False

    def record_used(self, keys: Collection[object], connection: int, newest: int) -> None:
        """The members have used this connection: a commit that arrives later on an older one may
        be older than their offsets."""
        if self._newest.record(keys, connection, newest):
            self._newest.forget_others(self._members())

    def waited_in_vain(self, call: Commits) -> None:
        """The call is refused because an earlier one has no answer yet. The engine has not seen it,
        so it may name a member that there is not."""
        members = self._members()
        for commit in call.commits.values():
            is_of_member = commit.has_member and all(key in members for key in commit.order_keys)
            if is_of_member and call.connection is not None:
                self.record_used(commit.order_keys, call.connection, call.newest_connection)

    def on_recalled(self, call: Commits) -> None:
        """A move has checked the commits of recalled members, which travel under other ids."""
        for commit in call.commits.values():
            decision = commit.outcome.decision
            self._record_decided(call, commit, decision)
            is_accepted = decision is not None and not decision.error
            commit.move(_ACCEPTED if is_accepted else CommitPhase.ENDED)

    def on_answer(self, call: Commits) -> None:
        """The call has its answer. Its commits have ended, or are strays, or the engine never had
        them; those that it has, it decides all the same."""
        if call.stage is not _DECIDING:
            for commit in call.commits.values():
                if commit.phase is _RECEIVED:
                    commit.call = None
        for key in call.order_keys:
            queue = self._queues[key]
            del queue[call.token]
            if queue:
                self.next_up.append(next(iter(queue.values())))
            else:
                del self._queues[key]

    def on_decision(self, commit: Commit, outcome: Reply | Refused | Unanswerable) -> None:
        """The engine has checked a commit."""
        call = commit.call
        assert call is not None
        if not isinstance(outcome, OffsetReply):
            commit.outcome = Outcome(refused=outcome if isinstance(outcome, Refused) else None)
            commit.move(CommitPhase.ENDED)
            return
        commit.outcome = Outcome(decision=outcome)
        self._record_decided(call, commit, outcome)
        if outcome.error:
            commit.move(CommitPhase.ENDED)
            return
        commit.move(_ACCEPTED)
        if call.answer is not None or (outcome.gone and commit.topic_names <= outcome.gone):
            self._engine.end_commit(commit)

    def _record_decided(self, call: Commits, commit: Commit, reply: Reply | None) -> None:
        tells_connection = reply is not None and reply.error in _TELLS_CONNECTION
        if tells_connection and commit.has_member and call.connection is not None:
            self.record_used(commit.order_keys, call.connection, call.newest_connection)

    def send(
        self, call: Commits, commits: Sequence[Commit], ids: AnchorIds | None, now_ms: int
    ) -> StoreCommits:
        """Send accepted commits under these ids. Returns the pending action."""
        if call.guarded is not None:
            call.guarded.in_flight += len(commits)
        for commit in commits:
            commit.ids, commit.sent_ms = ids, now_ms
            commit.move(_SENT)
        call.pending_action = pending_action = StoreCommits(
            call, tuple([commit.token for commit in commits]), ids
        )
        return pending_action

    def on_stored(self, call: Commits, codes: CommitCodes, now_ms: int) -> None:
        """The cluster has answered the commits that were sent. Those that it refused to the anchor
        are sent again, unless a later one has been answered: the offset would go back."""
        is_settled_behind = call.guarded is not None
        for commit in reversed(call.in_phase(_SENT)):
            commit_codes = codes[commit.token]
            if isinstance(commit_codes, str):
                commit.outcome = replace(commit.outcome, is_away=True)
                is_settled_behind |= commit_codes == LOST
                if commit_codes == LOST:
                    self._lose(call, commit, now_ms)
                else:
                    self._end(call, commit)
            elif not self._is_displaced(commit, commit_codes, now_ms):
                self._end(call, commit)
                is_settled_behind = True
            elif is_settled_behind:
                refused = Refused(RefusalReason.NOT_ANCHORED, self._anchor.reason)
                commit.outcome = replace(commit.outcome, refused=refused)
                self._end(call, commit)
            else:
                commit.move(_ACCEPTED)

    def _is_displaced(self, commit: Commit, codes: frozenset[int], now_ms: int) -> bool:
        """Whether the cluster refused the anchor, whose repair begins here."""
        if ErrorCode.NOT_COORDINATOR in codes:
            self._anchor.coordinator_moved(now_ms)
        displaced = codes & ABOUT_THE_ANCHOR
        if commit.ids is None or not displaced:
            return False
        self._anchor.doubt(commit.ids, "a commit", ErrorCode(min(displaced)), now_ms)
        return True

    def end_unsent(
        self, call: Commits, *, refused: Refused | None = None, is_away: bool = False
    ) -> None:
        """End the accepted commits that were not sent: they are refused, their client's broker is
        away, or nobody waits for them."""
        for commit in call.in_phase(_ACCEPTED):
            commit.outcome = replace(commit.outcome, refused=refused, is_away=is_away)
            self._engine.end_commit(commit)

    def abandon(self, call: Commits, now_ms: int) -> None:
        """End the accepted commits of a call that is not carried on."""
        self.end_unsent(call)
        for commit in call.in_phase(_SENT):
            self._lose(call, commit, now_ms)

    def _end(self, call: Commits, commit: Commit) -> None:
        """The cluster has stored a commit that was sent, or never will."""
        if call.guarded is None:
            self._engine.end_commit(commit)
        else:
            call.guarded.in_flight -= 1
            commit.move(CommitPhase.ENDED)

    def _lose(self, call: Commits, commit: Commit, now_ms: int) -> None:
        """The answer to a commit was lost. Of a guarded one the guard's end decides."""
        commit.move(CommitPhase.STRAY)
        if call.guarded is not None:
            call.guarded.in_flight -= 1
            call.guarded.is_barred = True
            return
        self._engine.observe(OffsetCommitEnded(commit=commit.token, answer_lost=True))
        if self._can_anchor:
            self._anchor.need(now_ms)
            self._anchor.renew(commit, now_ms)
