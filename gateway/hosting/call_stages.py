"""The calls of a group's clients, and the stages that each goes through until it is answered.

A call is refused before anything is taken for it. No member joins, and no answer with partitions
leaves, unless the anchor holds the group. An accepted commit holds its partitions until it has
certainly ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitEnded,
    SyncGroupReceived,
)
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting import hold
from gateway.hosting.anchor import Anchor
from gateway.hosting.answer_times import AnswerTimes
from gateway.hosting.answers import BY_MEMBERS, JOINS, GroupApi, Situation
from gateway.hosting.calls import (
    Abandoned,
    Answer,
    Call,
    Commit,
    CommitCodes,
    Commits,
    Errand,
    Forwarded,
    LearnTopics,
    LocateCoordinator,
    ProbeBroker,
    Refused,
    Released,
    Reserve,
    StoreCommits,
    Unanswerable,
    grants_partitions,
    is_for_good,
)
from gateway.hosting.commits import STORED, CommitsInFlight
from gateway.hosting.effects import AnswerClient, Effect, Log, refusal_line
from gateway.hosting.group_adoption import GroupAdoption
from gateway.hosting.group_release import GroupRelease
from gateway.hosting.identity import NO_IDS, AnchorIds
from gateway.hosting.join_order import JoinOrder
from gateway.hosting.logged_engine import Item, LoggedEngine
from gateway.hosting.looking import Looking
from gateway.hosting.placing import Place, Placing
from gateway.hosting.recall import Recall
from gateway.hosting.rules import HostingRules
from gateway.hosting.standing import Found, Standing
from gateway.hosting.states import AnchorPhase, CommitPhase, LogPhase, Stage
from gateway.hosting.waiting import JOIN_PATIENCE_MS, MEMBER_PATIENCE_MS, WaitingCalls

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_SENT, _ENDED = CommitPhase.SENT, CommitPhase.ENDED

_FOR_THE_ANCHOR = (Stage.ADMITTING, Stage.CONFIRMING)
"""The stages of calls that wait for nothing but the anchor."""


class CallStages:
    """Moves each call on until it waits for something."""

    def __init__(
        self,
        standing: Standing,
        rules: HostingRules,
        *,
        engine: LoggedEngine,
        anchor: Anchor,
        adoption: GroupAdoption,
        release: GroupRelease,
        looking: Looking,
        effects: list[Effect],
    ) -> None:
        """`effects` takes what the driver has to do."""
        self._group_id = standing.group_id
        self._standing = standing
        self._rules = rules
        self._engine = engine
        self._anchor = anchor
        self._adoption = adoption
        self._release_of_group = release
        self._looking = looking
        self._effects = effects
        self._placing = Placing(
            standing, rules, engine=engine, adoption=adoption, release=release, effects=effects
        )
        self._commits = CommitsInFlight(engine, anchor, can_anchor=rules.can_anchor)
        self.unanswered: dict[Token, Call] = {}
        """The calls without an answer."""
        self.waiting = WaitingCalls()
        """Those of them that wait for a look, the log or the anchor."""
        self._held_joins = JoinOrder()
        """The joins that wait for the end of a move."""
        self._times = AnswerTimes()
        self._seen: object = None
        """How the anchor and the move stood when the waiting calls were last advanced."""
        self._has_looked = False
        """Whether a look or a load of the log has ended since then."""
        self._is_ending = False

    # -- what the group asks ---------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of calls without an answer."""
        return len(self.unanswered)

    def lose_patience(self, now_ms: int) -> None:
        """Refuse the calls that have waited for too long."""
        for call in self.waiting.take_overdue(now_ms):
            self._give_up(call)

    def look_again(self) -> None:
        """Advance the waiting calls, though neither the anchor nor the adoption has moved."""
        self._has_looked = True

    def looked(self, found: Found) -> None:
        """A look at the cluster has ended."""
        config = self._rules.config_of(self._group_id)
        for call in self.unanswered.values():
            call.has_look = True
            call.held = hold.refusal(call, config, found)

    @property
    def has_native_join(self) -> bool:
        """Whether a consumer of the new protocol waits to join."""
        return any(call.api is GroupApi.CONSUMER_JOIN for call in self.unanswered.values())

    def overtake(self) -> None:
        """Another member has the group in the cluster, or had it."""
        for call in self.unanswered.values():
            is_decided = call.stage in (Stage.DECIDING, Stage.CONFIRMING)
            call.is_overtaken |= is_decided or isinstance(call, Commits)

    def advance(self, now_ms: int) -> bool:
        """Advance calls whose turn has come. False if there is none."""
        if self._anchor.ended:
            self._commits.end_strays()
        if self._commits.next_up:
            self._advance(self._commits.next_up.pop(), now_ms)
            return True
        return bool(self.waiting) and self._advance_waiting(now_ms)

    def _advance_waiting(self, now_ms: int) -> bool:
        """Advance the calls that wait if what they wait for has changed. Hundreds may wait for the
        anchor to join while each new call has a look at the cluster."""
        anchor = self._anchor
        move = self._placing.move
        outlook = None if move is None else move.outlook
        seen = (anchor.phase, anchor.is_here, anchor.confirmed, outlook)
        has_moved = seen != self._seen
        if not (has_moved or self._has_looked):
            return False
        self._seen, self._has_looked = seen, False
        for call in self.waiting:
            if has_moved or call.stage not in _FOR_THE_ANCHOR:
                self._advance(call, now_ms)
        return True

    # -- the short way of calls of a group at rest -----------------------------------------------

    def send_at_rest(self, call: Commits, now_ms: int) -> StoreCommits | None:
        """Accept a commit to a live group. Returns the errand that stores it; None if it came with
        others, has to wait, or may be refused."""
        ids = self._anchor.ids(now_ms)
        can_send = self._engine.is_live and (ids is not None or not self._rules.can_anchor)
        if not can_send or self._adoption.is_under_way or self._is_ending:
            return None
        commit = call.only
        if commit is None or self._commits.has_earlier(call) or self._commits.is_abandoned(call):
            return None
        commit.event = commit.make(commit.token, self._engine.topics)
        decided = self._engine.decide_at_rest(commit.event, now_ms)
        if decided is None or decided[1] is None:
            return None
        self.unanswered[call.token] = call
        call.asked_ms, call.was_held = now_ms, self._anchor.is_here
        self._commits.arrived(call)
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
        del self.unanswered[call.token]
        self._commits.answered(call)
        call.end(call.outcomes)
        return True

    # -- a call, until the engine has it ---------------------------------------------------------

    def asked(self, call: Call, now_ms: int) -> None:
        """A client has sent a request."""
        self.unanswered[call.token] = call
        call.asked_ms, call.was_held = now_ms, self._anchor.is_here
        if isinstance(call, Commits):
            self._commits.arrived(call)
        self._advance(call, now_ms)

    def _advance(self, call: Call, now_ms: int) -> None:
        """Move the call on until it waits for something."""
        self.waiting.drop(call)
        before = None
        while before is not call.stage:
            before = call.stage
            match call.stage:
                case Stage.QUEUED:
                    assert isinstance(call, Commits)
                    self._queue(call, now_ms)
                case Stage.PLACING:
                    self._place(call, now_ms)
                case Stage.CHECKING:
                    self._check(call, now_ms)
                case Stage.ADMITTING:
                    self._admit(call, now_ms)
                case Stage.STORING:
                    assert isinstance(call, Commits)
                    self._store(call, now_ms)
                case Stage.CONFIRMING:
                    self._confirm(call, now_ms)
                case Stage.RELEASING:
                    self._release(call, now_ms)
                case Stage.DECIDING | Stage.ANSWERED:
                    return

    def _queue(self, call: Commits, now_ms: int) -> None:
        """Wait until earlier commits of the same member have been answered."""
        if self._commits.is_abandoned(call):
            self._finish(call, Abandoned())
        elif self._commits.is_next(call):
            call.give_up_ms = None
            call.move(Stage.PLACING)
        else:
            self._wait_at_most(call, now_ms + MEMBER_PATIENCE_MS, now_ms)

    def _place(self, call: Call, now_ms: int) -> None:
        """Find out who answers the call."""
        match self._placing.place(call, now_ms):
            case Place.HERE:
                self._enter(call, now_ms)
            case Place.CLUSTER_WITHOUT_ANCHOR:
                call.move(Stage.RELEASING)
            case Place.AFTER_LOOK:
                self._wait_for_look(call)
            case Place.AFTER_LOAD:
                self.waiting.add(call)
            case Place.AFTER_MOVE if call.errand is None:
                older = self._held_joins.add(call)
                if older is not None:
                    self._refuse(older, Situation.MOVING, "its client has joined again")
                if older is call:
                    return
                # Native clients give a heartbeat up after its interval.
                is_join = call.api is GroupApi.JOIN
                patience_ms = JOIN_PATIENCE_MS if is_join else MEMBER_PATIENCE_MS
                self._wait_at_most(call, now_ms + patience_ms, now_ms)
            case Place.AFTER_LOCATE if call.errand is None:
                self._send_on(LocateCoordinator(call))
            case Place():
                pass  # an errand is under way
            case StoreCommits() as errand:
                self._effects.append(errand)
            case answer:
                self._finish(call, answer)

    def _enter(self, call: Call, now_ms: int) -> None:
        """The group here answers the call."""
        if not call.items:
            call.move(Stage.RELEASING)
        elif call.api not in JOINS or call.is_placed or self._is_held:
            self._begin(call, now_ms)
        else:
            call.move(Stage.ADMITTING if call.is_checked else Stage.CHECKING)

    @property
    def _is_held(self) -> bool:
        """Whether the group has members and its anchor, so that another member takes nothing."""
        return self._engine.is_live and (
            not self._rules.can_anchor or self._anchor.phase is AnchorPhase.STABLE
        )

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
            self._refuse(call, Situation.LOADING)
            return
        refusal = None if call.is_checked else self._engine.refusal(call, now_ms)
        if refusal is not None:
            self._effects.append(refusal_line(self._group_id, call, refusal))
            self._finish(call, refusal)
            return
        call.is_checked = True
        if not call.knows_topics:
            # Now, because calls that wait for the anchor together would lose their order.
            if call.errand is None:
                self._send_on(LearnTopics(call))
            return
        call.move(Stage.ADMITTING if self._engine.is_live or call.has_look else Stage.PLACING)

    def _admit(self, call: Call, now_ms: int) -> None:
        """Hold the group before a member may join."""
        patience_ms = MEMBER_PATIENCE_MS if self._engine.is_live else JOIN_PATIENCE_MS
        event = call.event
        if isinstance(event, JoinGroupReceived) and event.asks_for_id and not self._is_ending:
            # The client comes back with the id, and the anchor joins meanwhile.
            if not self._rules.can_anchor or self._need_anchor(call, now_ms):
                self._begin(call, now_ms)
            return
        if self._ids_for(call, patience_ms, now_ms) is None:
            return
        if isinstance(event, JoinGroupReceived):
            call.event = replace(event, waited_ms=now_ms - call.asked_ms)
        self._standing.host(self._standing.verdict.why, self._anchor.held_generation)
        self._effects += self._standing.take_outbox()  # before the events of its members
        self._engine.report_snapshot()
        self._begin(call, now_ms)

    def _begin(self, call: Call, now_ms: int) -> None:
        """Hand the call to the engine, once the topics that it names are known."""
        if not self._has_place(call):
            return
        call.move(Stage.DECIDING)
        call.give_up_ms = None
        if isinstance(call.event, ConsumerHeartbeatReceived):
            call.event = replace(call.event, answers_within_ms=self._times.longest_ms)
        if call.knows_topics:
            self._engine.put(call.items)
        elif not self._refuse_at_once(call.items, now_ms):
            self._send_on(LearnTopics(call))

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

    # -- what came of errands --------------------------------------------------------------------

    def finish_errand(self, errand: Errand, result: object, now_ms: int) -> None:
        """An errand was carried out. A call that has its answer since does not wait for it."""
        call = errand.call
        if call.answer is not None:
            return
        call.errand = None
        match errand, result:
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
                self._on_commits_stored(commits, result, now_ms)
            case _:
                raise TypeError(f"{result} is no result of {errand}")

    def on_reserved(self, call: Call, refused: Refused | None, now_ms: int) -> None:
        """The group counts towards the limits, or they leave no room for it."""
        if call.answer is not None:
            return
        if refused is None:
            call.has_place = True
            self._advance(call, now_ms)
        else:
            self._finish(call, refused)

    def fail_errand(self, errand: LearnTopics | LocateCoordinator, why: str) -> None:
        """An errand has failed, and so does its call."""
        call = errand.call
        if call.answer is not None:
            return
        call.errand = None
        match errand:
            case LocateCoordinator():
                self._refuse(call, Situation.COORDINATOR_UNKNOWN, why)
            case LearnTopics():
                fields = {"group_id": self._group_id, "reason": why}
                self._effects.append(Log("warning", "topics_unknown", fields))
                refused = Refused(Situation.TOPICS_UNKNOWN, "its topics are unknown")
                self._engine.outcomes.extend((item, refused) for item in call.items)

    # -- the engine's decision -------------------------------------------------------------------

    def take_outcomes(self, now_ms: int) -> None:
        """Move on the calls that the engine has decided."""
        while self._engine.outcomes:
            outcomes, self._engine.outcomes = self._engine.outcomes, []
            for item, outcome in outcomes:
                if not isinstance(outcome, Unanswerable) and outcome.why:
                    self._effects.append(refusal_line(self._group_id, item, outcome))
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
                self._let_go()
            self._finish(call, outcome)
            return
        if call.api is GroupApi.CONSUMER_JOIN:
            self._commits.joined(call, outcome)
        if call.answer is not None:
            return
        if call.is_placed or not self._rules.can_anchor:
            self._reply(call, outcome, now_ms)
        elif grants_partitions(outcome):  # to a member that may have gone again since
            if self._anchor.is_here or self._need_anchor(call, now_ms):
                call.reply = outcome
                call.confirms_since = self._anchor.confirm()
                call.move(Stage.CONFIRMING)
                self._advance(call, now_ms)
        elif not self._engine.is_live:
            if not call.was_held and is_for_good(outcome):
                self._let_go()
            self._finish(call, outcome)
        elif self._anchor.is_here or self._need_anchor(call, now_ms):
            self._reply(call, outcome, now_ms)

    def _confirm(self, call: Call, now_ms: int) -> None:
        """Before an answer grants partitions, the cluster confirms the anchor: an admin may have
        removed it. The engine has granted them already, and repeats a withheld answer like a lost
        one. A member removed meanwhile gets no grant, because there may be another owner."""
        since = call.confirms_since
        if call.is_overtaken:
            self._refuse(call, Situation.NOT_ANCHORED, "another member has had the group")
        elif self._ids_for(call, MEMBER_PATIENCE_MS, now_ms, since=since) is not None:
            assert call.reply is not None
            refusal = self._engine.refusal(call, now_ms) if self._has_gone(call) else None
            if refusal is not None:
                self._effects.append(refusal_line(self._group_id, call, refusal))
                call.reply = refusal
            self._reply(call, call.reply, now_ms)

    def _has_gone(self, call: Call) -> bool:
        """Whether the member that sent the call is no longer in the group. A thousand members may
        wait for the same heartbeat of the anchor, so the engine is not asked for each."""
        match call.event:
            case SyncGroupReceived(member_id=id_) | ConsumerHeartbeatReceived(member_id=id_):
                return call.api in BY_MEMBERS and id_ not in self._engine.members
            case _:
                return False

    def _reply(self, call: Call, reply: Reply, now_ms: int) -> None:
        self._note_time(call, now_ms)
        self._finish(call, reply)

    def _note_time(self, call: Call, now_ms: int) -> None:
        """Only of members: a first member also waits for the anchor."""
        if isinstance(call.event, ConsumerHeartbeatReceived) and call.event.member_epoch > 0:
            self._times.note(now_ms - call.asked_ms)

    # -- commits ---------------------------------------------------------------------------------

    def _store_if_decided(self, call: Commits, now_ms: int) -> None:
        """Store the accepted commits once all of the call are decided, unless their member has
        joined on a newer connection meanwhile."""
        if call.answer is not None or call.in_phase(CommitPhase.RECEIVED):
            return
        if self._commits.is_abandoned(call):
            self._commits.abandon(call, now_ms)
            self._finish(call, Abandoned())
        else:
            call.move(Stage.STORING)
            self._advance(call, now_ms)

    def _store(self, call: Commits, now_ms: int) -> None:
        """Send the accepted commits on the client's own connection. If the cluster refuses the
        anchor, the anchor is repaired and the commits are sent again; the client never sees that
        error."""
        accepted = call.in_phase(CommitPhase.ACCEPTED)
        if call.errand is not None or call.in_phase(_SENT):
            return
        if not accepted:
            self._finish(call, Unanswerable() if call.has_failed else call.outcomes)
            return
        if not self._rules.can_anchor:
            self._effects.append(self._commits.send(call, accepted, None, now_ms))
            return
        if call.is_overtaken:
            self._refuse(call, Situation.NOT_ANCHORED, self._anchor.why)
            return
        needs_ids = (
            self._engine.is_live
            or self._anchor.is_here
            or any(commit.has_member for commit in accepted)
            or self._standing.is_left_behind(call, now_ms)
        )
        if needs_ids is None:
            self._wait_for_look(call)
        elif not needs_ids:
            self._effects.append(self._commits.send(call, accepted, None, now_ms))
        elif (ids := self._ids_for(call, MEMBER_PATIENCE_MS, now_ms)) is not None:
            self._effects.append(self._commits.send(call, accepted, ids, now_ms))
        elif call.answer is None and not call.is_probed:
            self._send_on(ProbeBroker(call))

    def _on_commits_stored(self, call: Commits, codes: CommitCodes, now_ms: int) -> None:
        """The cluster has answered commits, or will not."""
        if call.stage is Stage.PLACING:
            self._finish(call, self._recall_of(call).answer_stored(call, codes))
            return
        self._commits.on_stored(call, codes, now_ms)
        self._advance(call, now_ms)

    # -- the anchor ------------------------------------------------------------------------------

    def _ids_for(
        self, call: Call, patience_ms: int, now_ms: int, *, since: int = -1
    ) -> AnchorIds | None:
        """The anchor's ids, confirmed after request number `since`. None if the call has to wait
        for them, or was refused.

        In a group with members, all requests stop waiting `patience_ms` after the group was lost,
        because they queue one behind the other.
        """
        has_given_way = call.give_up_ms is not None and self._anchor.has_given_way
        if not self._rules.can_anchor:
            return NO_IDS
        if has_given_way or self._is_ending:
            why = self._anchor.why if has_given_way else "the gateway is shutting down"
            self._refuse(call, Situation.NOT_ANCHORED, why)
            return None
        if not self._need_anchor(call, now_ms):
            return None
        ids = self._anchor.ids(now_ms, since=since)
        if ids is None:
            waited_ms = self._anchor.lost_for_ms(now_ms) if self._engine.is_live else 0
            self._wait_at_most(call, now_ms + patience_ms - waited_ms, now_ms)
        return ids

    def _need_anchor(self, call: Call, now_ms: int) -> bool:
        """Start the anchor if there is none, and keep it. Refuses the call during a move."""
        release = self._release_of_group
        if self._adoption.is_under_way or (release.is_under_way and not release.keeps_anchor):
            self._refuse(call, Situation.MOVING)
            return False
        self._anchor.need(now_ms, is_live=self._engine.is_live)
        return True

    def _wait_at_most(self, call: Call, give_up_ms: int, now_ms: int) -> None:
        if not self.waiting.add_until(call, give_up_ms, now_ms):
            self._give_up(call)

    def _give_up(self, call: Call) -> None:
        match call.stage:
            case Stage.QUEUED:
                assert isinstance(call, Commits)
                self._commits.waited_in_vain(call)
                self._refuse(call, Situation.COMMIT_IN_FLIGHT)
            case Stage.PLACING:
                self._refuse(call, Situation.MOVING)
            case Stage.RELEASING:
                self._refuse(call, Situation.NOT_ANCHORED, "the anchor has not left yet")
            case _:
                self._refuse(call, Situation.NOT_ANCHORED, self._anchor.why)

    def _let_go(self) -> None:
        """Release the group without lingering, because no member was admitted."""
        if not self._is_awaited:
            self._anchor.drop()

    @property
    def _is_awaited(self) -> bool:
        """Whether a member is about to join."""
        return any(call.stage is Stage.ADMITTING for call in self.waiting)

    def _release(self, call: Call, now_ms: int) -> None:
        """Have the anchor leave an empty group, so that the cluster may change it. If an earlier
        process left an anchor, first take its place."""
        is_there: bool | None = self._anchor.is_here
        if self._rules.can_anchor and not (is_there or call.has_dropped):
            is_there = self._standing.is_left_behind(call, now_ms)
        if is_there is None:
            self._wait_for_look(call)
        elif not is_there:
            self._finish(call, Forwarded() if call.is_foreign else Released())
        elif self._release_of_group.is_under_way:
            self._refuse(call, Situation.MOVING)
        elif self._engine.is_live or self._is_awaited:
            self._refuse(call, Situation.NOT_ANCHORED, "a member is about to join")
        elif call.has_dropped or self._need_anchor(call, now_ms):
            call.has_dropped = True
            self._anchor.drop()
            self._wait_at_most(call, now_ms + MEMBER_PATIENCE_MS, now_ms)

    # -- waiting and ending ----------------------------------------------------------------------

    def _wait_for_look(self, call: Call) -> None:
        self.waiting.add(call)
        self._looking.begin()

    def _has_place(self, call: Call) -> bool:
        """Whether the group counts towards the limits. If it does not yet, the call waits."""
        if self._engine.is_live or call.has_place:
            return True
        self._effects.append(Reserve(call))
        return False

    def gone(self, call: Call, now_ms: int) -> None:
        """The client has gone. Its request is still decided, and an accepted commit ends."""
        if call.answer is not None:
            return
        call.is_gone = True
        self._note_time(call, now_ms)
        if isinstance(call, Commits):
            self._abandon(call, now_ms)
        self._finish(call, Unanswerable())

    def _abandon(self, call: Commits, now_ms: int) -> None:
        """Nobody waits for the commits any more."""
        self._recall_of(call).lose(call)
        self._commits.abandon(call, now_ms)

    def _recall_of(self, call: Commits) -> Recall:
        """The recall that has sent the call's commits, if one has. It may be over by now."""
        recall = self._release_of_group.recall
        return recall if call.token in recall.in_flight else self._adoption.recall

    def _refuse(self, call: Call, situation: Situation, why: str = "") -> None:
        refused = Refused(situation, why or situation.value)
        if isinstance(call, Commits) and call.stage is Stage.STORING:
            self._commits.refuse(call, refused)
            self._finish(call, call.outcomes)
        else:
            self._finish(call, refused)

    def _finish(self, call: Call, answer: Answer) -> None:
        if call.answer is None:
            self.unanswered.pop(call.token, None)
            self.waiting.drop(call)
            self._held_joins.drop(call)
            if isinstance(call, Commits):
                self._commits.answered(call)
            call.end(answer)
            self._effects.append(AnswerClient(call))

    def _send_on(self, errand: Errand) -> None:
        """Have an errand carried out on the client's connection."""
        errand.call.errand = errand
        self._effects.append(errand)

    def start_again(self, now_ms: int) -> None:
        """After a bug: answer all calls with Unanswerable."""
        for call in tuple(self.unanswered.values()):
            if isinstance(call, Commits):
                self._commits.abandon_undecided(call)
                self._abandon(call, now_ms)
            self._finish(call, Unanswerable())

    def end(self) -> None:
        """The gateway is shutting down: nothing waits from now on."""
        self._is_ending = True
        for call in self.waiting:
            if call.give_up_ms is not None:
                self._refuse(call, Situation.NOT_ANCHORED, "the gateway is shutting down")
