"""The stages that each call of a group's clients goes through until it is answered.

A call is refused before anything is taken for it. No member joins, and no answer with partitions
leaves, unless the anchor holds the group. A commit is queued, accepted by the engine, and stored by
the cluster; accepted, it holds its partitions until it has certainly ended (`commits.py`).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitEnded,
    SyncGroupReceived,
)
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply, Reply
from coordinator.interface.topics import Topics
from coordinator.native.heartbeat_interval import ANSWER_TIMES_PER_INTERVAL
from coordinator.native.leave import JOINED_AGAIN
from gateway.hosting import hold
from gateway.hosting.answers import JOINS, GroupApi, RefusalReason
from gateway.hosting.calls import (
    Abandoned,
    Answer,
    Call,
    Commit,
    CommitCodes,
    Commits,
    Forwarded,
    LearnTopics,
    LocateCoordinator,
    PendingAction,
    ProbeBroker,
    Refused,
    Released,
    Reserve,
    StoreCommits,
    Unanswerable,
    grants_partitions,
    is_for_good,
    refuse,
)
from gateway.hosting.commits import STORED
from gateway.hosting.effects import Log, refusal_line
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.logged_engine import Item, StepOfMove
from gateway.hosting.move import Move
from gateway.hosting.open_calls import JOIN_WAIT_MS, MEMBER_WAIT_MS, OpenCalls
from gateway.hosting.routes import (
    ROUTES,
    SITUATION_OF,
    CallKind,
    GroupSituation,
    Route,
    refusal_by,
)
from gateway.hosting.standing import LookupOutcome, RoutingDecision
from gateway.hosting.states import CommitPhase, LogPhase, Stage
from kafka_codecs.error_codes import ErrorCode

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_SENT, _ENDED = CommitPhase.SENT, CommitPhase.ENDED
_FOR_THE_ANCHOR = (Stage.ADMITTING, Stage.CONFIRMING)
"""The stages of calls that wait for nothing but the anchor."""
ANSWER_TIMES_KEPT = 100
"""The longest of so many is at least their 99th percentile."""


class CallStages:
    """Moves each call on until it waits for something."""

    def __init__(self, parts: GroupParts, move: Move) -> None:
        self.open_calls = OpenCalls(parts, move)
        """The calls without an answer."""
        self._commits = self.open_calls.commits
        self._parts = parts
        self._engine, self._anchor = parts.engine, parts.anchor
        self._effects = parts.effects
        self._can_anchor = parts.rules.can_anchor
        self._move = move
        self.answers_within_ms = 0
        """The longest of `_times`."""
        self._quick_ms = (
            parts.rules.config.unsettled_heartbeat_interval_ms // ANSWER_TIMES_PER_INTERVAL
        )
        """How long answers may take before intervals have to be longer."""
        self.answers_are_slow = False
        self._times: deque[int] = deque(maxlen=ANSWER_TIMES_KEPT)
        """How long the latest heartbeats took, in milliseconds. Those at rest take no time, and
        count only while others are slow."""
        self._seen: object = None
        """How the anchor and the move stood when the waiting calls were last advanced."""
        self._has_looked = False
        """Whether a look or a load of the log has ended since then."""

    # -- what the group asks ---------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of calls without an answer."""
        return len(self.open_calls.by_token)

    def look_again(self) -> None:
        """Advance the waiting calls, though neither the anchor nor the adoption has moved."""
        self._has_looked = True

    def on_look(self, outcome: LookupOutcome) -> None:
        """A look at the cluster has ended."""
        config = self._parts.config
        for call in self.open_calls.by_token.values():
            call.has_look = True
            call.held = hold.refusal(call, config, outcome)

    @property
    def has_native_join(self) -> bool:
        """Whether a consumer of the new protocol waits to join."""
        return any(call.api is GroupApi.CONSUMER_JOIN for call in self.open_calls.by_token.values())

    def supersede(self) -> None:
        """Another member has the group in the cluster, or had it."""
        for call in self.open_calls.by_token.values():
            is_decided = call.stage in (Stage.DECIDING, Stage.CONFIRMING)
            call.is_superseded |= is_decided or isinstance(call, Commits)

    def advance(self, now_ms: int) -> bool:
        """Advance calls whose turn has come. False if there is none."""
        if self._commits.next_up:
            self._advance(self._commits.next_up.pop(), now_ms)
            return True
        return bool(self.open_calls.waiting) and self._advance_waiting(now_ms)

    def _advance_waiting(self, now_ms: int) -> bool:
        """Advance the calls that wait if what they wait for has changed. Hundreds may wait for the
        anchor to join while each new call has a look at the cluster."""
        anchor = self._anchor
        seen = (anchor.phase, anchor.is_here, anchor.confirmed, self._move.outlook)
        has_moved = seen != self._seen
        if not (has_moved or self._has_looked):
            return False
        self._seen, self._has_looked = seen, False
        for call in tuple(self.open_calls.waiting.values()):
            if has_moved or call.stage not in _FOR_THE_ANCHOR:
                self._advance(call, now_ms)
        return True

    # -- a call, until the engine has it ---------------------------------------------------------

    def start(self, call: Call, now_ms: int) -> None:
        """A client has sent a request."""
        self.open_calls.add(call, now_ms)
        self._advance(call, now_ms)

    def _advance(self, call: Call, now_ms: int) -> None:
        """Move the call on until it waits for something."""
        self.open_calls.waiting.pop(call.token, None)
        before = None
        while before is not call.stage:
            before = call.stage
            match call.stage:
                case Stage.QUEUED:
                    assert isinstance(call, Commits)
                    self._queue_commits(call, now_ms)
                case Stage.PLACING:
                    self._place(call, now_ms)
                case Stage.CHECKING:
                    self._check(call, now_ms)
                case Stage.ADMITTING:
                    self._admit(call, now_ms)
                case Stage.STORING:
                    assert isinstance(call, Commits)
                    self._store_commits(call, now_ms)
                case Stage.CONFIRMING:
                    self._confirm(call, now_ms)
                case Stage.RELEASING:
                    self._release(call, now_ms)
                case Stage.DECIDING | Stage.ANSWERED:
                    return

    def _place(self, call: Call, now_ms: int) -> None:
        """Find out who answers the call, by the table in `routes.py`, and do what that says."""
        situation, decision = self._situation(call, now_ms)
        match ROUTES[situation, CallKind.of(call)]:
            case Route.HERE | Route.MOVE if (late := self._answer_if_late(call)) is not None:
                self.open_calls.answer(call, late)
            case Route.HERE:
                self._place_here(call, now_ms)
            case Route.MOVE if isinstance(call, Commits) and self._move.check(call, now_ms):
                self._commits.on_recalled(call)
                call.move(Stage.STORING)
            case Route.MOVE if (answer := self._move.answer(call, now_ms)) is not None:
                self.open_calls.answer(call, answer)
            case Route.MOVE | Route.AFTER_MOVE:
                self.open_calls.wait_for_move(call, now_ms)
            case Route.AFTER_LOOK:
                self.open_calls.wait_for_look(call)
            case Route.AFTER_LOAD:
                self.open_calls.wait(call)
            case Route.CLUSTER_UNLESS_HELD if hold.may_be_held(call, self._parts.config):
                self._forward_unless_held(call, decision)
            case Route.CLUSTER | Route.CLUSTER_UNLESS_HELD:
                self._forward(call, decision)
            case Route.CLUSTER_WITHOUT_ANCHOR:
                call.move(Stage.RELEASING)
            case Route.REFUSE:
                assert decision is not None
                self.open_calls.answer(call, refusal_by(decision))

    def _situation(self, call: Call, now_ms: int) -> tuple[GroupSituation, RoutingDecision | None]:
        """The situation, and the decision on the group if it follows from that. The cluster is
        asked only about a group without members here that does not move."""
        if call.is_placed or self._engine.is_live:
            return GroupSituation.HERE, None
        if (situation := self._move.situation) is not None:
            return situation, None
        if self._engine.phase is LogPhase.LOADING:
            return GroupSituation.UNREAD, None
        decision = self._parts.standing.find_decision(call, now_ms)
        if decision is None:
            return GroupSituation.UNKNOWN_TO_US, None
        return SITUATION_OF[decision.mode], decision

    def _place_here(self, call: Call, now_ms: int) -> None:
        """At another listener than the coordinator's, a broker would refuse the call."""
        if call.is_placed or call.is_at_coordinator:
            self._enter(call, now_ms)
        elif call.is_at_coordinator is not None:
            self.open_calls.refuse(call, RefusalReason.NOT_AT_COORDINATOR)
        elif call.pending_action is None:
            self.open_calls.start_action(LocateCoordinator(call))

    def _answer_if_late(self, call: Call) -> Answer | None:
        """The answer to a join or leave that has waited on a connection that its client has given
        up, and joined again since. The client would not learn what a late JoinGroup is granted, and
        a static member would lose its place to its own (DEV D5). A late leave (DEV D25) is refused
        by the engine as well, unless it was loaded meanwhile; a move serves members without it. A
        native join is only marked."""
        event, number = call.event, call.connection
        if not isinstance(event, JoinGroupReceived | ConsumerHeartbeatReceived) or number is None:
            return None
        member_id = event.member_id or self._member_of(event.instance_id)
        call.is_overtaken = self._parts.joined_on.has_newer((member_id,), number)
        if not call.is_overtaken:
            return None
        if isinstance(event, JoinGroupReceived):
            return Abandoned()
        if call.api is GroupApi.CONSUMER_LEAVE:
            return event.refuse(GroupError(ErrorCode.FENCED_MEMBER_EPOCH, JOINED_AGAIN))
        return None

    def _member_of(self, instance_id: str | None) -> str | None:
        """The id of the member that has this instance id, also while the group moves."""
        if instance_id is None:
            return None
        return self._engine.member_of(instance_id) or self._move.member_of(instance_id)

    def _forward_unless_held(self, call: Call, decision: RoutingDecision | None) -> None:
        if decision is None:
            self.open_calls.refuse(call, RefusalReason.MOVING)  # the look is the adoption's
        elif not call.has_look:
            self.open_calls.wait_for_look(call)
        elif call.held is not None:
            self._effects.append(refusal_line(self._parts.group_id, call, call.held))
            self.open_calls.answer(call, call.held)
        else:
            self._forward(call, decision)

    def _forward(self, call: Call, decision: RoutingDecision | None) -> None:
        pending_ids = self._parts.standing.pending_ids
        reply = None if pending_ids is None else pending_ids.answer_repeated(call)
        reason = self._move.why_forwarded if decision is None else decision.reason
        self.open_calls.answer(call, Forwarded(reason) if reply is None else reply)

    def _enter(self, call: Call, now_ms: int) -> None:
        """The group here answers the call."""
        if not call.items:
            call.move(Stage.RELEASING)
        elif call.api not in JOINS or call.is_placed or self.open_calls.is_held:
            self._begin(call, now_ms)
        else:
            call.move(Stage.ADMITTING if call.is_checked else Stage.CHECKING)

    def _check(self, call: Call, now_ms: int) -> None:
        """Refuse what the engine refuses, before anything is taken for it."""
        if not self._has_place(call):
            return
        if self._engine.phase is LogPhase.UNLOADED:
            self._engine.load()
        if self._engine.phase is LogPhase.LOADING:
            self.open_calls.wait(call)
            return
        if self._engine.phase is LogPhase.UNREADABLE:
            self.open_calls.refuse(call, RefusalReason.LOADING)
            return
        is_decided_anyway = call.is_checked or self._needs_nothing(call, now_ms)
        refusal = None if is_decided_anyway else self._engine.refusal(call, now_ms)
        if refusal is not None:
            self._effects.append(refusal_line(self._parts.group_id, call, refusal))
            self.open_calls.answer(call, refusal)
            return
        call.is_checked = True
        if not call.knows_topics:
            # Now, because calls that wait for the anchor together would lose their order.
            if call.pending_action is None:
                self.open_calls.start_action(LearnTopics(call))
            return
        call.move(Stage.ADMITTING if self._engine.is_live or call.has_look else Stage.PLACING)

    def _needs_nothing(self, call: Call, now_ms: int) -> bool:
        """Whether the call can go to the engine without anything that is taken or asked for it, so
        that a decision in advance would save nothing."""
        if not (self._engine.is_live and call.knows_topics) or self._move.bars_anchor:
            return False
        return not self._can_anchor or self._anchor.ids(now_ms) is not None

    def _admit(self, call: Call, now_ms: int) -> None:
        """Hold the group before a member may join."""
        if not self.open_calls.has_anchor_place(call):
            return
        wait_ms = MEMBER_WAIT_MS if self._engine.is_live else JOIN_WAIT_MS
        event = call.event
        if (
            isinstance(event, JoinGroupReceived)
            and event.asks_for_id
            and not self._engine.is_ending
        ):
            # The client comes back with the id, and the anchor joins meanwhile.
            if not self._can_anchor or self.open_calls.need_anchor(call, now_ms):
                self._begin(call, now_ms)
            return
        if self.open_calls.anchor_ids(call, wait_ms, now_ms) is None:
            return
        if isinstance(event, JoinGroupReceived):
            call.event = replace(event, waited_ms=now_ms - call.asked_ms)
        standing = self._parts.standing
        standing.host(standing.decision.reason, self._anchor.held_generation)
        self._engine.report_snapshot()
        self._begin(call, now_ms)

    def _begin(self, call: Call, now_ms: int) -> None:
        """Hand the call to the engine, once the topics that it names are known."""
        if not self._has_place(call):
            return
        call.move(Stage.DECIDING)
        call.give_up_ms = None
        if isinstance(call.event, ConsumerHeartbeatReceived):
            call.event = replace(call.event, answers_within_ms=self.answers_within_ms)
        if call.knows_topics:
            self._engine.put(call.items)
        elif not self._refuse_at_once(call.items, now_ms):
            self.open_calls.start_action(LearnTopics(call))

    def _refuse_at_once(self, items: Sequence[Item], now_ms: int) -> bool:
        """Refuse what the engine refuses, before the cluster is asked about topics."""
        if not self._engine.is_loaded:
            return False
        refusals = [self._engine.refusal(item, now_ms) for item in items]
        decided = [(item, reply) for item, reply in zip(items, refusals, strict=True) if reply]
        if len(decided) < len(items):
            return False
        self._engine.outcomes.extend(decided)
        return True

    # -- what came of pending actions ------------------------------------------------------------

    def on_action_done(self, pending_action: PendingAction, result: object, now_ms: int) -> None:
        """An action was carried out. A call that has its answer since does not wait for it."""
        call = pending_action.call
        if call.answer is not None:
            return
        call.pending_action = None
        match pending_action, result:
            case LocateCoordinator(), bool(is_here):
                call.is_at_coordinator = is_here
                self._advance(call, now_ms)
            case LearnTopics(), Topics():
                self._engine.topics = result
                call.knows_topics = True
                if call.stage is Stage.CHECKING:
                    self._advance(call, now_ms)
                else:
                    self._engine.put(call.items)
            case ProbeBroker(call=commits), bool(is_there):
                commits.is_probed = True
                if not is_there:
                    self._commits.never_sent(commits)
                self._advance(call, now_ms)
            case StoreCommits(call=commits), Mapping():
                self._commits.on_stored(commits, result, now_ms)
                self._store_commits(commits, now_ms)
            case _:
                raise TypeError(f"{result} is no result of {pending_action}")

    def on_reserved(
        self, call: Call, reserved: Reserve, refusal: Refused | None, now_ms: int
    ) -> None:
        """The group counts towards the limits, or they leave no room for it."""
        if call.answer is not None:
            return
        if refusal is None:
            call.has_place |= reserved.is_hosted
            call.has_anchor_place |= reserved.is_anchored
            self._advance(call, now_ms)
        else:
            self.open_calls.refuse(call, refusal.cause, refusal.reason)

    def on_action_failed(
        self, pending_action: LearnTopics | LocateCoordinator, reason: str
    ) -> None:
        """An action has failed, and so does its call."""
        call = pending_action.call
        if call.answer is not None:
            return
        call.pending_action = None
        match pending_action:
            case LocateCoordinator():
                self.open_calls.refuse(call, RefusalReason.COORDINATOR_UNKNOWN, reason)
            case LearnTopics():
                fields = {"group_id": self._parts.group_id, "reason": reason}
                self._effects.append(Log("warning", "topics_unknown", fields))
                refusal = refuse(RefusalReason.TOPICS_UNKNOWN, "its topics are unknown")
                self._engine.outcomes.extend((item, refusal) for item in call.items)

    # -- the engine's decision -------------------------------------------------------------------

    def take_outcomes(self, now_ms: int) -> None:
        """Move on the calls that the engine has decided, and the move."""
        while self._engine.outcomes:
            outcomes, self._engine.outcomes = self._engine.outcomes, []
            for item, outcome in outcomes:
                if isinstance(outcome, bool):
                    assert isinstance(item, StepOfMove)
                    self._move.on_decided(item, is_durable=outcome, now_ms=now_ms)
                    continue
                assert not isinstance(item, StepOfMove)
                if not isinstance(outcome, Unanswerable) and outcome.reason:
                    self._effects.append(refusal_line(self._parts.group_id, item, outcome))
                if isinstance(item, Commit):
                    call = item.call
                    assert call is not None
                    self._commits.on_decision(item, outcome)
                    self._store_if_decided(call, now_ms)
                else:
                    self._on_decision(item, outcome, now_ms)

    def _on_decision(
        self, call: Call, outcome: Reply | Refused | Unanswerable, now_ms: int
    ) -> None:
        if isinstance(outcome, Refused | Unanswerable):
            if call.api in JOINS and not (self._engine.is_live or call.was_held):
                self.open_calls.drop_anchor()
            self.open_calls.answer(call, outcome)
            return
        if isinstance(outcome, JoinGroupReply | ConsumerHeartbeatReply) and call.api in JOINS:
            self._note_join(call, outcome)
        if call.answer is not None:
            return
        if call.is_placed or not self._can_anchor:
            self._reply(call, outcome, now_ms)
        elif grants_partitions(outcome):  # to a member that may have gone again since
            if self._anchor.is_here or self.open_calls.need_anchor(call, now_ms):
                call.reply = outcome
                call.confirms_since = self._anchor.confirm()
                call.move(Stage.CONFIRMING)
                self._advance(call, now_ms)
        elif not self._engine.is_live:
            if not call.was_held and is_for_good(outcome):
                self.open_calls.drop_anchor()
            self.open_calls.answer(call, outcome)
        elif self._anchor.is_here or self.open_calls.need_anchor(call, now_ms):
            self._reply(call, outcome, now_ms)

    def _note_join(self, call: Call, reply: JoinGroupReply | ConsumerHeartbeatReply) -> None:
        if call.connection is None or reply.error:
            return
        joined_on = self._parts.joined_on
        if joined_on.note((reply.member_id,), call.connection):
            joined_on.forget_others(self.open_calls.member_ids())
        if call.api is GroupApi.CONSUMER_JOIN:
            self._commits.on_native_join(reply.member_id, call.connection, call.newest_connection)

    def _confirm(self, call: Call, now_ms: int) -> None:
        """Before an answer grants partitions, the cluster confirms the anchor: an admin may have
        removed it. The engine has granted them already, and repeats a withheld answer like a lost
        one. A member removed meanwhile gets no grant, because there may be another owner."""
        since = call.confirms_since
        if call.is_superseded:
            self.open_calls.refuse(
                call, RefusalReason.NOT_ANCHORED, "another member has had the group"
            )
        elif self.open_calls.anchor_ids(call, MEMBER_WAIT_MS, now_ms, since=since) is not None:
            assert call.reply is not None
            refusal = self._refusal_of_gone(call, now_ms)
            if refusal is not None:
                self._effects.append(refusal_line(self._parts.group_id, call, refusal))
            self._reply(call, refusal or call.reply, now_ms)

    def _refusal_of_gone(self, call: Call, now_ms: int) -> Reply | Refused | None:
        """The refusal if the member that sent the call is no longer in the group. A thousand
        members may wait for the same heartbeat of the anchor, so the engine is not asked for
        each."""
        match call.event, call.reply:
            case SyncGroupReceived(member_id=id_), _:
                pass
            case ConsumerHeartbeatReceived(), ConsumerHeartbeatReply(member_id=id_):
                pass
            case _:
                return None
        if id_ in self._engine.members:
            return None
        # The engine would let it join once more.
        reason = "the member was removed meanwhile"
        return self._engine.refusal(call, now_ms) or refuse(RefusalReason.NOT_ANCHORED, reason)

    def _reply(self, call: Call, reply: Reply | Refused, now_ms: int) -> None:
        self._note_time(call, now_ms)
        self.open_calls.answer(call, reply)

    def _note_time(self, call: Call, now_ms: int) -> None:
        """Only of members: a first member also waits for the anchor."""
        if isinstance(call.event, ConsumerHeartbeatReceived) and call.event.member_epoch > 0:
            self._note_answer_time(now_ms - call.asked_ms)

    def _note_answer_time(self, time_ms: int) -> None:
        self._times.append(time_ms)
        self.answers_within_ms = max(self._times)
        self.answers_are_slow = self.answers_within_ms > self._quick_ms

    def note_answer_at_rest(self) -> None:
        """Let an answer that took no time make slow ones be forgotten."""
        self._note_answer_time(0)

    def _release(self, call: Call, now_ms: int) -> None:
        """Have the anchor leave an empty group, so that the cluster may change it. If an earlier
        process left an anchor, first take its place."""
        is_there: bool | None = self._anchor.is_here
        if self._can_anchor and not (is_there or call.has_dropped):
            is_there = self._parts.standing.is_left_behind(call, now_ms)
        if is_there is None:
            self.open_calls.wait_for_look(call)
        elif not is_there:
            self.open_calls.answer(call, Forwarded() if call.is_foreign else Released())
        elif self._move.has_begun:
            self.open_calls.refuse(call, RefusalReason.MOVING)
        elif self._engine.is_live or self.open_calls.is_join_waiting:
            self.open_calls.refuse(call, RefusalReason.NOT_ANCHORED, "a member is about to join")
        elif not self.open_calls.has_anchor_place(call):
            pass
        elif call.has_dropped or self.open_calls.need_anchor(call, now_ms):
            call.has_dropped = True
            self._anchor.drop()
            self.open_calls.wait_at_most(call, now_ms + MEMBER_WAIT_MS, now_ms)

    # -- commits: the short way of a group at rest -----------------------------------------------

    def send_at_rest(self, call: Commits, now_ms: int) -> StoreCommits | None:
        """Accept a commit to a live group. Returns the pending action that stores it; None if it
        came with others, has to wait, or may be refused."""
        ids = self._anchor.ids(now_ms)
        can_send = self._engine.is_live and (ids is not None or not self._can_anchor)
        if not can_send or self._engine.is_ending:
            return None
        commit = call.only
        if commit is None or self._commits.has_earlier(call) or self._commits.is_abandoned(call):
            return None
        commit.event = commit.make(commit.token, self._engine.topics)
        decided = self._engine.decide_at_rest(commit.event, now_ms)
        if decided is None or decided[1] is None:
            return None
        self.open_calls.by_token[call.token] = call
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
        del self.open_calls.by_token[call.token]
        self._commits.on_answer(call)
        call.end(call.outcomes)
        return True

    # -- commits: the long way -------------------------------------------------------------------

    def _queue_commits(self, call: Commits, now_ms: int) -> None:
        """Wait until earlier commits of the same member have been answered."""
        if self._commits.is_abandoned(call):
            self.open_calls.answer(call, Abandoned())
        elif self._commits.is_next(call):
            call.give_up_ms = None
            call.move(Stage.PLACING)
        else:
            self.open_calls.wait_at_most(call, now_ms + MEMBER_WAIT_MS, now_ms)

    def _store_if_decided(self, call: Commits, now_ms: int) -> None:
        """Store the accepted commits once all of the call are decided, unless their member has
        joined on a newer connection meanwhile."""
        if call.answer is not None or call.in_phase(CommitPhase.RECEIVED):
            return
        if self._commits.is_abandoned(call):
            self._commits.abandon(call, now_ms)
            self.open_calls.answer(call, Abandoned())
        else:
            call.move(Stage.STORING)
            self._store_commits(call, now_ms)

    def _store_commits(self, call: Commits, now_ms: int) -> None:
        """Send the accepted commits on the client's own connection. If the cluster refuses the
        anchor, the anchor is repaired and the commits are sent again; the client never sees that
        error."""
        accepted = call.in_phase(CommitPhase.ACCEPTED)
        if call.pending_action is not None or call.in_phase(_SENT):
            return
        if not accepted:
            self.open_calls.answer(call, Unanswerable() if call.has_failed else call.outcomes)
            return
        if call.guarded is not None or not self._can_anchor:
            ids = self._move.guard_ids(now_ms)
            self._effects.append(self._commits.send(call, accepted, ids, now_ms))
            return
        if call.is_superseded:
            self.open_calls.refuse(call, RefusalReason.NOT_ANCHORED, self._anchor.reason)
            return
        needs_ids = (
            self._engine.is_live
            or self._anchor.is_here
            or any(commit.has_member for commit in accepted)
            or self._parts.standing.is_left_behind(call, now_ms)
        )
        if needs_ids is None:
            self.open_calls.wait_for_look(call)
        elif not needs_ids:
            self._effects.append(self._commits.send(call, accepted, None, now_ms))
        elif not self.open_calls.has_anchor_place(call):
            pass
        elif (ids := self.open_calls.anchor_ids(call, MEMBER_WAIT_MS, now_ms)) is not None:
            self._effects.append(self._commits.send(call, accepted, ids, now_ms))
        elif call.answer is None and not call.is_probed:
            self.open_calls.start_action(ProbeBroker(call))

    # -- waiting and ending ----------------------------------------------------------------------

    def _has_place(self, call: Call) -> bool:
        """Whether the group counts towards the limits. If it does not yet, the call waits."""
        if self._engine.is_live or call.has_place:
            return True
        self._effects.append(Reserve(call, is_anchored=call.api in JOINS))
        return False

    def on_client_gone(self, call: Call, now_ms: int) -> None:
        """The client has gone. Its request is still decided, and an accepted commit ends."""
        if call.answer is not None:
            return
        call.is_gone = True
        self._note_time(call, now_ms)
        if isinstance(call, Commits):
            self._commits.abandon(call, now_ms)
        self.open_calls.answer(call, Unanswerable())

    def start_again(self, now_ms: int) -> None:
        """After a bug: answer all calls with Unanswerable."""
        for call in tuple(self.open_calls.by_token.values()):
            if isinstance(call, Commits):
                self._commits.abandon_undecided(call)
                self._commits.abandon(call, now_ms)
            self.open_calls.answer(call, Unanswerable())
