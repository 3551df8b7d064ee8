"""The calls of a group's clients that have no answer yet, and the stages that each goes through.

A call is refused before anything is taken for it. No member joins, and no answer with partitions
leaves, unless the anchor holds the group. The anchor joins for calls, and leaves again if no member
was admitted. A commit is queued, accepted by the engine, and stored by the cluster; accepted, it
holds its partitions until it has certainly ended (`commits.py`).
"""

from collections.abc import Collection, Mapping, Sequence
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
from coordinator.interface.volatile_records import Token
from coordinator.native.leave import JOINED_AGAIN
from gateway.hosting import hold
from gateway.hosting.answer_times import AnswerTimes
from gateway.hosting.answers import JOINS, GroupApi, RefusalReason
from gateway.hosting.calls import (
    UNDECIDED,
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
    UnconfirmedReply,
    grants_partitions,
    is_for_good,
    refuse,
)
from gateway.hosting.cluster_lookup import ClusterLookup
from gateway.hosting.commits import STORED, CommitsInFlight
from gateway.hosting.effects import AnswerClient, refusal_line
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.identity import NO_IDS, AnchorIds
from gateway.hosting.logged_engine import Item, StepOfMove
from gateway.hosting.move import Move
from gateway.hosting.routes import (
    ROUTES,
    CallKind,
    GroupSituation,
    Route,
    Situation,
    refusal_by,
)
from gateway.hosting.states import AnchorPhase, CommitPhase, LogPhase, Stage
from gateway.hosting.waiting_calls import WaitingCalls
from kafka_codecs.error_codes import ErrorCode

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_SENT, _ENDED, _STORING = CommitPhase.SENT, CommitPhase.ENDED, Stage.STORING
_FOR_THE_ANCHOR = (Stage.ADMITTING, Stage.CONFIRMING)
"""The stages of calls that wait for nothing but the anchor."""
JOIN_WAIT_MS = 10_000
"""How long a join waits for the anchor: more than Kafka's initial rebalance delay of 3 s."""
MEMBER_WAIT_MS = 3_000
"""How long a member's requests wait for the anchor, counted from the loss of the group. The
member's next heartbeat queues behind them, and a session may be as short as 6 s."""
ENDING = "the gateway is shutting down"


class CallStages:
    """Moves each call on until it waits for something: a lookup in the cluster, the log, the
    anchor, or the end of a move."""

    def __init__(self, parts: GroupParts, move: Move, lookup: ClusterLookup) -> None:
        self.by_token: dict[Token, Call] = {}
        """The calls without an answer, in the order of their arrival."""
        self.waiting = WaitingCalls()
        self.answer_times = AnswerTimes(parts.rules.config)
        self._commits = CommitsInFlight(
            parts.engine,
            parts.anchor,
            parts.committed_on,
            self.member_ids,
            can_anchor=parts.rules.can_anchor,
        )
        self._parts = parts
        self._engine, self._anchor = parts.engine, parts.anchor
        self._effects = parts.effects
        self._can_anchor = parts.rules.can_anchor
        self._move, self._lookup = move, lookup
        self._seen: object = None
        """How the anchor and the move stood when the waiting calls were last advanced."""
        self._has_looked = False
        """Whether a lookup or a load of the log has ended since then."""

    # -- what the group asks ---------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of calls without an answer."""
        return len(self.by_token)

    def member_ids(self) -> Collection[str]:
        """The ids of the members, also while they move."""
        return self._engine.members or self._move.member_ids

    def look_again(self) -> None:
        """Advance the waiting calls, though neither the anchor nor the adoption has moved."""
        self._has_looked = True

    def on_look(self) -> None:
        """A lookup in the cluster has ended."""
        for call in self.by_token.values():
            call.has_look = True

    @property
    def has_native_join(self) -> bool:
        """Whether a consumer of the new protocol waits to join."""
        return any(call.api is GroupApi.CONSUMER_JOIN for call in self.by_token.values())

    def supersede(self) -> None:
        """Another member has the group in the cluster, or had it."""
        for call in self.by_token.values():
            is_decided = call.stage in (Stage.DECIDING, Stage.CONFIRMING)
            call.is_superseded |= is_decided or isinstance(call, Commits)

    def advance(self, now_ms: int) -> bool:
        """Advance calls whose turn has come. False if there is none."""
        if self._commits.next_up:
            self._advance(self._commits.next_up.pop(), now_ms)
            return True
        return bool(self.waiting) and self._advance_waiting(now_ms)

    def _advance_waiting(self, now_ms: int) -> bool:
        """Advance the calls that wait if what they wait for has changed. Hundreds may wait for the
        anchor to join while each new call causes a lookup in the cluster."""
        anchor = self._anchor
        seen = (anchor.phase, anchor.is_here, anchor.confirmed, self._move.outlook)
        has_moved = seen != self._seen
        if not (has_moved or self._has_looked):
            return False
        self._seen, self._has_looked = seen, False
        for call in self.waiting:
            if has_moved or call.stage not in _FOR_THE_ANCHOR:
                self._advance(call, now_ms)
        return True

    # -- a call, until the engine has it ---------------------------------------------------------

    def start(self, call: Call, now_ms: int) -> None:
        """A client has sent a request."""
        self.by_token[call.token] = call
        call.asked_ms, call.was_held = now_ms, self._anchor.is_here
        if isinstance(call, Commits):
            self._commits.queue(call)
        self._advance(call, now_ms)

    def _advance(self, call: Call, now_ms: int) -> None:
        """Move the call on until it waits for something."""
        self.waiting.remove(call)
        before = None
        while before is not call.stage:
            before = call.stage
            match call.stage:
                case Stage.QUEUED:
                    assert isinstance(call, Commits)
                    self._queue_commits(call, now_ms)
                case Stage.PLACING | Stage.LOOKING:
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
                self.answer(call, late)
            case Route.HERE:
                self._place_here(call, now_ms)
            case Route.MOVE if isinstance(call, Commits) and self._move.check(call, now_ms):
                self._commits.on_recalled(call)
                call.move(Stage.STORING)
            case Route.MOVE if (answer := self._move.answer(call, now_ms)) is not None:
                self.answer(call, answer)
            case Route.MOVE | Route.AFTER_MOVE:
                self.wait_for_move(call, now_ms)
            case Route.AFTER_LOOK:
                self.wait_for_look(call)
            case Route.AFTER_LOAD:
                self.waiting.add(call)
            case Route.CLUSTER_UNLESS_HELD if hold.may_be_held(call, self._parts.config):
                self._forward_unless_held(call, decision, now_ms)
            case Route.CLUSTER | Route.CLUSTER_UNLESS_HELD:
                self._forward(call, decision, now_ms)
            case Route.CLUSTER_WITHOUT_ANCHOR:
                call.move(Stage.RELEASING)
            case Route.REFUSE:
                assert decision is not None
                self.answer(call, refusal_by(decision))

    def _situation(self, call: Call, now_ms: int) -> tuple[Situation, RoutingDecision | None]:
        """The situation, and the decision on the group if it follows from that. The cluster is
        asked only about a group without members here that does not move."""
        if call.is_placed or self._engine.is_live:
            return GroupSituation.HERE, None
        if (situation := self._move.situation) is not None:
            return situation, None
        if self._engine.phase is LogPhase.LOADING:
            return GroupSituation.UNREAD, None
        decision = self._parts.routing.find_decision(call, now_ms)
        if decision is None:
            return GroupSituation.UNKNOWN_TO_US, None
        return decision.mode, decision

    def _place_here(self, call: Call, now_ms: int) -> None:
        """At another listener than the coordinator's, a broker would refuse the call."""
        if call.is_placed or call.is_at_coordinator:
            self._enter(call, now_ms)
        elif call.is_at_coordinator is not None:
            self.refuse(call, RefusalReason.NOT_AT_COORDINATOR)
        elif call.pending_action is None:
            self.start_action(LocateCoordinator(call))

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

    def _forward_unless_held(
        self, call: Call, decision: RoutingDecision | None, now_ms: int
    ) -> None:
        if decision is None:
            self.refuse(call, RefusalReason.MOVING)  # the lookup is the adoption's
        elif self._lookup.latest_outcome is None or not call.has_look:
            self.wait_for_look(call)
        elif refusal := hold.refusal(call, self._parts.config, self._lookup.latest_outcome):
            self._effects.append(refusal_line(call, refusal))
            self.answer(call, refusal)
        else:
            self._forward(call, decision, now_ms)

    def _forward(self, call: Call, decision: RoutingDecision | None, now_ms: int) -> None:
        reply = self._parts.routing.answer_repeated(call, now_ms)
        reason = self._move.why_forwarded if decision is None else decision.reason
        self.answer(call, Forwarded(reason) if reply is None else reply)

    def _enter(self, call: Call, now_ms: int) -> None:
        """The group here answers the call."""
        if not call.items:
            call.move(Stage.RELEASING)
        elif call.api not in JOINS or call.is_placed or self.is_held:
            self._begin(call, now_ms)
        else:
            call.move(Stage.ADMITTING if call.stage is Stage.LOOKING else Stage.CHECKING)

    def _check(self, call: Call, now_ms: int) -> None:
        """Refuse what the engine refuses, before anything is taken for it."""
        if not self._has_place(call):
            return
        if self._engine.phase is LogPhase.UNLOADED:
            self._engine.load()
        if self._engine.phase is LogPhase.LOADING:
            self.waiting.add(call)
            return
        if self._engine.phase is LogPhase.UNREADABLE:
            self.refuse(call, RefusalReason.LOADING)
            return
        is_decided_anyway = call.pending_action is not None or self._needs_nothing(call, now_ms)
        refusal = None if is_decided_anyway else self._engine.refusal(call, now_ms)
        if refusal is not None:
            self._effects.append(refusal_line(call, refusal))
            self.answer(call, refusal)
            return
        if not call.knows_topics:
            # Now, because calls that wait for the anchor together would lose their order.
            if call.pending_action is None:
                self.start_action(LearnTopics(call))
            return
        call.move(Stage.ADMITTING if self._engine.is_live or call.has_look else Stage.LOOKING)

    def _needs_nothing(self, call: Call, now_ms: int) -> bool:
        """Whether the call can go to the engine without anything that is taken or asked for it, so
        that a decision in advance would save nothing."""
        if not (self._engine.is_live and call.knows_topics) or self._move.bars_anchor:
            return False
        return not self._can_anchor or self._anchor.ids(now_ms) is not None

    def _admit(self, call: Call, now_ms: int) -> None:
        """Hold the group before a member may join."""
        if not self.has_anchor_place(call):
            return
        wait_ms = MEMBER_WAIT_MS if self._engine.is_live else JOIN_WAIT_MS
        event = call.event
        if (
            isinstance(event, JoinGroupReceived)
            and event.asks_for_id
            and not self._engine.is_ending
        ):
            # The client comes back with the id, and the anchor joins meanwhile.
            if not self._can_anchor or self.need_anchor(call, now_ms):
                self._begin(call, now_ms)
            return
        if self.anchor_ids(call, wait_ms, now_ms) is None:
            return
        if isinstance(event, JoinGroupReceived):
            call.event = replace(event, waited_ms=now_ms - call.asked_ms)
        routing = self._parts.routing
        routing.host(routing.decision.reason, self._anchor.held_generation)
        self._engine.report_snapshot()
        self._begin(call, now_ms)

    def _begin(self, call: Call, now_ms: int) -> None:
        """Hand the call to the engine, once the topics that it names are known."""
        if not self._has_place(call):
            return
        call.move(Stage.DECIDING)
        call.give_up_ms = None
        if self.answer_times.are_slow and isinstance(call.event, ConsumerHeartbeatReceived):
            call.event = replace(call.event, answers_within_ms=self.answer_times.longest_ms)
        if call.knows_topics:
            self._engine.put(call.items)
        elif not self._refuse_at_once(call.items, now_ms):
            self.start_action(LearnTopics(call))

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

    def start_action(self, pending_action: PendingAction) -> None:
        """Have an action carried out on the client's connection."""
        pending_action.call.pending_action = pending_action
        self._effects.append(pending_action)

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
                    self._commits.end_unsent(commits, is_away=True)
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
            self.refuse(call, refusal.cause, refusal.reason)

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
                self.refuse(call, RefusalReason.COORDINATOR_UNKNOWN, reason)
            case LearnTopics():
                self._parts.log("warning", "topics_unknown", reason=reason)
                refusal = refuse(RefusalReason.TOPICS_UNKNOWN, "its topics are unknown")
                self._engine.outcomes.extend((item, refusal) for item in call.items)

    # -- the engine's decision -------------------------------------------------------------------

    def take_outcomes(self, now_ms: int) -> None:
        """Move on the calls that the engine has decided, and the move."""
        while self._engine.outcomes:
            item, outcome = self._engine.outcomes.popleft()
            if isinstance(outcome, bool):
                assert isinstance(item, StepOfMove)
                self._move.on_decided(item, is_durable=outcome, now_ms=now_ms)
                continue
            assert not isinstance(item, StepOfMove)
            if not isinstance(outcome, Unanswerable) and outcome.reason:
                self._effects.append(refusal_line(item, outcome))
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
            self.answer(call, outcome)
            if call.api in JOINS and not (self._engine.is_live or call.was_held):
                self.drop_anchor()
            return
        if isinstance(outcome, JoinGroupReply | ConsumerHeartbeatReply) and call.api in JOINS:
            self._record_join(call, outcome)
        if call.answer is not None:
            return
        if call.is_placed or not self._can_anchor:
            self._reply(call, outcome, now_ms)
        elif grants_partitions(outcome):  # to a member that may have gone again since
            if self._anchor.is_here or self.need_anchor(call, now_ms):
                call.unconfirmed = UnconfirmedReply(outcome, self._anchor.confirm())
                call.move(Stage.CONFIRMING)
                self._advance(call, now_ms)
        elif not self._engine.is_live:
            self.answer(call, outcome)
            if not call.was_held and is_for_good(outcome):
                self.drop_anchor()
        elif self._anchor.is_here or self.need_anchor(call, now_ms):
            self._reply(call, outcome, now_ms)

    def _record_join(self, call: Call, reply: JoinGroupReply | ConsumerHeartbeatReply) -> None:
        if call.connection is None or reply.error:
            return
        joined_on = self._parts.joined_on
        if joined_on.record((reply.member_id,), call.connection):
            joined_on.forget_others(self.member_ids())
        if call.api is GroupApi.CONSUMER_JOIN:
            # The member may have been here before, or the process that had its id. It may fetch
            # before a commit of the same epoch arrives that was sent on an older connection.
            newest = call.newest_connection
            self._commits.record_used((reply.member_id,), call.connection, newest)

    def _confirm(self, call: Call, now_ms: int) -> None:
        """Before an answer grants partitions, the cluster confirms the anchor: an admin may have
        removed it. The engine has granted them already, and repeats a withheld answer like a lost
        one. A member removed meanwhile gets no grant, because there may be another owner."""
        unconfirmed = call.unconfirmed
        assert unconfirmed is not None
        if call.is_superseded:
            self.refuse(call, RefusalReason.NOT_ANCHORED, "another member has had the group")
        elif self.anchor_ids(call, MEMBER_WAIT_MS, now_ms, since=unconfirmed.confirms_since):
            refusal = self._refusal_of_gone(call, unconfirmed.reply, now_ms)
            if refusal is not None:
                self._effects.append(refusal_line(call, refusal))
            self._reply(call, refusal or unconfirmed.reply, now_ms)

    def _refusal_of_gone(self, call: Call, reply: Reply, now_ms: int) -> Reply | Refused | None:
        """The refusal if the member that sent the call is no longer in the group. A thousand
        members may wait for the same heartbeat of the anchor, so the engine is not asked for
        each."""
        match call.event, reply:
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
        self._record_time(call, now_ms)
        self.answer(call, reply)

    def _record_time(self, call: Call, now_ms: int) -> None:
        """Whether only members wait: a first member also waits for the anchor."""
        if isinstance(call.event, ConsumerHeartbeatReceived) and call.event.member_epoch > 0:
            self.answer_times.record(now_ms - call.asked_ms)

    def _release(self, call: Call, now_ms: int) -> None:
        """Have the anchor leave an empty group, so that the cluster may change it. If an earlier
        process left an anchor, first take its place."""
        is_there: bool | None = self._anchor.is_here
        if self._can_anchor and not (is_there or call.has_dropped):
            is_there = self._parts.routing.is_left_behind(call, now_ms)
        if is_there is None:
            self.wait_for_look(call)
        elif not is_there:
            self.answer(call, Forwarded() if call.is_foreign else Released())
        elif self._move.has_begun:
            self.refuse(call, RefusalReason.MOVING)
        elif self._engine.is_live or self.is_join_waiting:
            self.refuse(call, RefusalReason.NOT_ANCHORED, "a member is about to join")
        elif not self.has_anchor_place(call):
            pass
        elif call.has_dropped or self.need_anchor(call, now_ms):
            call.has_dropped = True
            self._anchor.drop()
            self.wait_at_most(call, now_ms + MEMBER_WAIT_MS, now_ms)

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
        self.by_token[call.token] = call
        call.asked_ms, call.was_held = now_ms, self._anchor.is_here
        self._commits.queue(call)
        self._commits.on_decision(commit, decided[1])
        call.move(_STORING)
        return self._commits.send(call, (commit,), ids, now_ms)

    def end_at_rest(self, call: Commits, codes: CommitCodes, now_ms: int) -> bool:
        """Answer a commit that the cluster has stored. False if anything waits for it, or if the
        cluster gave any other answer."""
        commit = call.only
        if commit is None or commit.phase is not _SENT or call.stage is not _STORING:
            return False
        if codes[commit.token] != STORED or self._commits.has_later(call):
            return False
        ended = OffsetCommitEnded(commit=commit.token)
        if self._engine.decide_at_rest(ended, now_ms) is None:
            return False
        commit.move(_ENDED)
        del self.by_token[call.token]
        self._commits.on_answer(call)
        call.end(call.outcomes)
        return True

    # -- commits: the long way -------------------------------------------------------------------

    def _queue_commits(self, call: Commits, now_ms: int) -> None:
        """Wait until earlier commits of the same member have been answered."""
        if self._commits.is_abandoned(call):
            self.answer(call, Abandoned())
        elif self._commits.is_next(call):
            call.give_up_ms = None
            call.move(Stage.PLACING)
        else:
            self.wait_at_most(call, now_ms + MEMBER_WAIT_MS, now_ms)

    def _store_if_decided(self, call: Commits, now_ms: int) -> None:
        """Store the accepted commits once all of the call are decided, unless their member has
        joined on a newer connection meanwhile."""
        if call.answer is not None or call.in_phase(CommitPhase.RECEIVED):
            return
        if self._commits.is_abandoned(call):
            self._commits.abandon(call, now_ms)
            self.answer(call, Abandoned())
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
            has_failed = UNDECIDED in call.outcomes.values()
            self.answer(call, Unanswerable() if has_failed else call.outcomes)
            return
        if call.guarded is not None or not self._can_anchor:
            ids = self._move.guard_ids(now_ms)
            self._effects.append(self._commits.send(call, accepted, ids, now_ms))
            return
        if call.is_superseded:
            self.refuse(call, RefusalReason.NOT_ANCHORED, self._anchor.reason)
            return
        needs_ids = (
            self._engine.is_live
            or self._anchor.is_here
            or any(commit.has_member for commit in accepted)
            or self._parts.routing.is_left_behind(call, now_ms)
        )
        if needs_ids is None:
            self.wait_for_look(call)
        elif not needs_ids:
            self._effects.append(self._commits.send(call, accepted, None, now_ms))
        elif not self.has_anchor_place(call):
            pass
        elif (ids := self.anchor_ids(call, MEMBER_WAIT_MS, now_ms)) is not None:
            self._effects.append(self._commits.send(call, accepted, ids, now_ms))
        elif call.answer is None and not call.is_probed:
            self.start_action(ProbeBroker(call))

    # -- waiting ---------------------------------------------------------------------------------

    def wait_at_most(self, call: Call, give_up_ms: int, now_ms: int) -> None:
        """Wait until then, or until an earlier limit of the call. Refuses it if that is over."""
        if not self.waiting.add_until(call, give_up_ms, now_ms):
            self._give_up(call)

    def wait_for_look(self, call: Call) -> None:
        """Wait for a lookup in the cluster, which begins now unless one is under way."""
        self.waiting.add(call)
        self._lookup.begin()

    def wait_for_move(self, call: Call, now_ms: int) -> None:
        """Wait for the end of a move, unless the call's client has joined again meanwhile."""
        older = self.waiting.hold_join(call)
        if older is not None:
            self.refuse(older, RefusalReason.MOVING, "its client has joined again")
        if older is not call:
            # Native clients give a heartbeat up after its interval.
            is_join = call.api is GroupApi.JOIN
            wait_ms = JOIN_WAIT_MS if is_join else MEMBER_WAIT_MS
            self.wait_at_most(call, now_ms + wait_ms, now_ms)

    def expire(self, now_ms: int) -> None:
        """Refuse the calls that have waited for too long."""
        for call in self.waiting.take_expired(now_ms):
            self._give_up(call)

    def _give_up(self, call: Call) -> None:
        match call.stage:
            case Stage.QUEUED:
                assert isinstance(call, Commits)
                self._commits.waited_in_vain(call)
                self.refuse(call, RefusalReason.COMMIT_IN_FLIGHT)
            case Stage.PLACING | Stage.LOOKING:
                self.refuse(call, RefusalReason.MOVING)
            case Stage.RELEASING:
                self.refuse(call, RefusalReason.NOT_ANCHORED, "the anchor has not left yet")
            case _:
                self.refuse(call, RefusalReason.NOT_ANCHORED, self._anchor.reason)

    # -- the anchor ------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether the group has members and its anchor, so that another member takes nothing."""
        return self._engine.is_live and (
            not self._can_anchor or self._anchor.phase is AnchorPhase.STABLE
        )

    @property
    def is_join_waiting(self) -> bool:
        """Whether a member is about to join."""
        return any(
            call.api in JOINS and call.stage in (Stage.ADMITTING, Stage.DECIDING)
            for call in self.by_token.values()
        )

    def anchor_ids(
        self, call: Call, wait_ms: int, now_ms: int, *, since: int = -1
    ) -> AnchorIds | None:
        """The anchor's ids, confirmed after request number `since`. None if the call has to wait
        for them, or was refused.

        In a group with members, all requests stop waiting `wait_ms` after the group was lost,
        because they queue one behind the other.
        """
        has_given_way = call.give_up_ms is not None and self._anchor.has_given_way
        if not self._can_anchor:
            return NO_IDS
        if has_given_way or self._engine.is_ending:
            reason = self._anchor.reason if has_given_way else ENDING
            self.refuse(call, RefusalReason.NOT_ANCHORED, reason)
            return None
        if not self.need_anchor(call, now_ms):
            return None
        ids = self._anchor.ids(now_ms, since=since)
        if ids is None:
            waited_ms = self._anchor.lost_for_ms(now_ms) if self._engine.is_live else 0
            self.wait_at_most(call, now_ms + wait_ms - waited_ms, now_ms)
        return ids

    def has_anchor_place(self, call: Call) -> bool:
        """Whether the group has an anchor, or may have one as far as the limits tell. If that is
        unknown, the call waits. A group with members counts already."""
        if self._anchor.is_here or self._engine.is_live or call.has_anchor_place:
            return True
        if not self._can_anchor:
            return True
        self._effects.append(Reserve(call, is_anchored=True, is_hosted=False))
        return False

    def need_anchor(self, call: Call, now_ms: int) -> bool:
        """Start the anchor if there is none, and keep it. Refuses the call during a move."""
        if self._move.bars_anchor:
            self.refuse(call, RefusalReason.MOVING)
            return False
        self._anchor.need(now_ms, is_live=self._engine.is_live)
        return True

    def drop_anchor(self) -> None:
        """Release the group without lingering, because no member was admitted. A release keeps the
        anchor for the members that it recalls: they still have their partitions."""
        if not (self.is_join_waiting or self._move.is_under_way):
            self._anchor.drop()

    def _has_place(self, call: Call) -> bool:
        """Whether the group counts towards the limits. If it does not yet, the call waits."""
        if self._engine.is_live or call.has_place:
            return True
        self._effects.append(Reserve(call, is_anchored=call.api in JOINS))
        return False

    # -- the end ---------------------------------------------------------------------------------

    def refuse(self, call: Call, cause: RefusalReason, reason: str = "") -> None:
        """Answer the call with an error of the gateway itself."""
        refusal = refuse(cause, reason)
        if isinstance(call, Commits) and call.stage is Stage.STORING:
            self._commits.end_unsent(call, refused=refusal)
            self.answer(call, call.outcomes)
        else:
            self.answer(call, refusal)

    def answer(self, call: Call, answer: Answer) -> None:
        """Give the client the answer, unless it has one."""
        if call.answer is None:
            self.by_token.pop(call.token, None)
            self.waiting.forget(call)
            if isinstance(call, Commits):
                self._commits.on_answer(call)
            call.end(answer)
            self._effects.append(AnswerClient(call))

    def refuse_waiting(self) -> None:
        """Refuse what waits no longer than for some time: the gateway is shutting down."""
        for call in self.waiting:
            if call.give_up_ms is not None:
                self.refuse(call, RefusalReason.NOT_ANCHORED, ENDING)

    def on_client_gone(self, call: Call, now_ms: int) -> None:
        """The client has gone. Its request is still decided, and an accepted commit ends."""
        if call.answer is not None:
            return
        self._record_time(call, now_ms)
        if isinstance(call, Commits):
            self._commits.abandon(call, now_ms)
        self.answer(call, Abandoned())

    def start_again(self, now_ms: int) -> None:
        """After a bug: answer all calls with Unanswerable."""
        for call in tuple(self.by_token.values()):
            if isinstance(call, Commits):
                self._commits.abandon(call, now_ms)
            self.answer(call, Unanswerable())
