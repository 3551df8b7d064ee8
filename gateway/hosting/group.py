"""One group behind the gateway: who answers for it, its engine and log, its anchor, and the calls
of its clients.

`handle` takes an input and returns the effects for the driver. Check, decide, make durable, apply,
answer: a call is refused before anything is taken for it, no member joins and no answer with
partitions leaves unless the anchor holds the group, and an accepted commit holds its partitions
until it has certainly ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from coordinator.interface.events import GroupLost, JoinGroupReceived
from coordinator.interface.replies import Reply
from coordinator.interface.volatile_records import Token
from gateway.events.group_events import GroupTaken
from gateway.hosting import inputs
from gateway.hosting.adoption_steps import AdoptionOutcome, Treatment, Wish
from gateway.hosting.anchor import Anchor
from gateway.hosting.answers import ANSWERS, BY_MEMBERS, JOINS, REMOVED, Situation
from gateway.hosting.calls import (
    Answer,
    Call,
    Commit,
    Commits,
    Failed,
    Forwarded,
    Learn,
    Locate,
    Probe,
    Refused,
    Released,
    Store,
    grants_partitions,
    is_for_good,
)
from gateway.hosting.commits import CommitsInFlight
from gateway.hosting.effects import Effect, Log, Look, Tell, TellNow, refusal_line
from gateway.hosting.forwarded import Client
from gateway.hosting.group_adoption import GroupAdoption
from gateway.hosting.identity import NO_IDS, AnchorIds
from gateway.hosting.inputs import Input
from gateway.hosting.logged_engine import Item, LoggedEngine
from gateway.hosting.room import TooManyGroups
from gateway.hosting.rules import HostingRules
from gateway.hosting.shown_partitions import ShownPartitions
from gateway.hosting.standing import (
    Found,
    NoAnswer,
    Occupants,
    Standing,
    Verdict,
)
from gateway.hosting.states import AnchorPhase, CommitPhase, LogPhase, Mode, Stage
from gateway.hosting.waiting import JOIN_PATIENCE_MS, MEMBER_PATIENCE_MS, WaitingCalls
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.heartbeat import HeartbeatResponse


class HostedGroup:
    """Inputs and answers to effects come in through `handle`; `next_ms` says when `TimePassed` is
    due."""

    def __init__(self, standing: Standing, rules: HostingRules, *, spread: float = 1.0) -> None:
        """`spread`: this group's factor on the anchor's heartbeat interval."""
        self.group_id = group_id = standing.group_id
        self.rules = rules
        self._effects: list[Effect] = []
        self.standing = standing
        self.engine = LoggedEngine(
            group_id, rules.config, pauses=rules.pauses, effects=self._effects
        )
        self.anchor = Anchor(
            group_id,
            rules.standing.gateway,
            shown=ShownPartitions(self.engine),
            room=rules.anchored,
            linger_ms=rules.linger_ms,
            spread=spread,
            effects=self._effects,
        )
        self.adoption = GroupAdoption(
            standing, rules, engine=self.engine, anchor=self.anchor, effects=self._effects
        )
        self._commits = CommitsInFlight(self.engine, self.anchor, can_anchor=rules.can_anchor)
        self._calls: dict[Token, Call] = {}
        """The calls without an answer."""
        self._waiting = WaitingCalls()
        """Those of them that wait for a look, the log or the anchor."""
        self._is_looking = False
        self._is_look_of_anchor = False
        """Whether the look began after the anchor had asked for it."""
        self._seen: object = None
        """What the waiting calls were last advanced on."""
        self._has_place = False
        self._is_ending = False

    # -- looking ---------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether the group has members here."""
        return self.engine.is_live

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in memory but what the cluster has said of the group."""
        return (
            self.engine.phase is LogPhase.UNLOADED
            and not (self._calls or self._is_looking)
            and not (self.anchor.is_here or self.adoption.is_under_way)
        )

    def next_ms(self) -> int | None:
        """When `TimePassed` is due, in wall-clock milliseconds."""
        next_ms = self.engine.next_ms()
        anchor_ms = self.anchor.next_ms(is_live=self.engine.is_live)
        if anchor_ms is not None and (next_ms is None or anchor_ms < next_ms):
            next_ms = anchor_ms
        for at_ms in (self._waiting.next_ms(), self.adoption.next_ms()):
            if at_ms is not None and (next_ms is None or at_ms < next_ms):
                next_ms = at_ms
        return next_ms

    # -- inputs ----------------------------------------------------------------------------------

    def answer_at_rest(self, call: Call, now_ms: int) -> bool:
        """Answer a heartbeat if it only prolongs a session, so that no effect and no change of
        `next_ms` follows. Any other call has to be `Asked`."""
        is_held = self.anchor.is_here or not self.rules.can_anchor
        if not (call.is_at_coordinator and call.knows_topics and is_held and self.engine.is_live):
            return False
        reply = None if call.event is None else self.engine.prolong(call.event, now_ms)
        if reply is None:
            return False
        call.finish(reply)
        return True

    def handle(self, event: Input, now_ms: int) -> Sequence[Effect]:  # noqa: PLR0912, PLR0915
        """Take an input. Returns the effects, to be carried out in this order."""
        match event:
            case inputs.Asked(call):
                self._asked(call, now_ms)
            case inputs.Gone(call):
                self._gone(call, now_ms)
            case inputs.TimePassed():
                for call in self._waiting.take_overdue(now_ms):
                    self._give_up(call)
            case inputs.TopicsMoved(topics):
                self.engine.topics = topics
            case inputs.Happened(happening):
                self.engine.note(happening)
            case inputs.SeenForeign(why):
                self.standing.forward(why, now_ms)
            case inputs.Relayed(client, request, answer):
                self._relayed(client, request, answer, now_ms)
            case inputs.Resumed(is_adopting):
                self.adoption.is_expected |= is_adopting
                self._resume()
            case inputs.Adopt(wish):
                self._adopt(wish)
            case inputs.StepTaken(step):
                self.adoption.handle(step, now_ms)
            case inputs.Leave():
                self.anchor.drop()
            case inputs.Ending():
                self._end()
            case inputs.Looked(found):
                self._looked(found, now_ms)
            case inputs.Loaded():
                self.engine.loaded(event, now_ms)
                self._seen = None
                if self.engine.is_live:
                    self.standing.host("its members are in the state log")
            case inputs.LoadFailed(why):
                self.engine.load_failed(why, now_ms)
                self._seen = None
            case inputs.Written():
                self.rules.log_health.note(is_healthy=True, now_ms=now_ms)
                self.engine.written(now_ms)
            case inputs.Forgotten():
                self.engine.forgotten()
            case inputs.WriteFailed(damage):
                if damage is not inputs.Damage.REFUSED:
                    self.rules.log_health.note(is_healthy=False, now_ms=now_ms)
                self.engine.write_failed(damage, now_ms)
            case inputs.Computed(error):
                self.engine.computed(error, now_ms)
            case inputs.CoordinatorAnswered(answer):
                self.anchor.answered(answer, now_ms)
            case inputs.CoordinatorFailed(why):
                self.anchor.failed(why, now_ms)
            case inputs.Located(call, is_here):
                self._located(call, is_here, now_ms)
            case inputs.Learned(call, topics, failure):
                self.engine.topics = topics
                self._learned(call, failure, now_ms)
            case inputs.Probed(call, is_there):
                self._probed(call, now_ms, is_there=is_there)
            case inputs.Stored(call, codes):
                self._stored(call, codes, now_ms)
            case _:
                assert_never(event)
        return self._settled(now_ms)

    def start_again(self, now_ms: int) -> Sequence[Effect]:
        """After a bug: answer all calls with Failed, load the group again and rejoin. No answer to
        an earlier effect may follow."""
        self._effects[:] = [e for e in self._effects if isinstance(e, Log | Tell | TellNow)]
        self._is_looking = False
        self.anchor.start_again(now_ms)
        self.adoption.start_again()
        self.engine.start_again()
        for call in tuple(self._calls.values()):
            if isinstance(call, Commits):
                self._commits.abandon_undecided(call)
                self._commits.abandon(call, now_ms)
            self._finish(call, Failed())
        return self._settled(now_ms)

    def _settled(self, now_ms: int) -> Sequence[Effect]:
        """Draw all conclusions. Returns the effects."""
        while True:
            self.engine.work(now_ms)
            if self.engine.outcomes:
                self._take_outcomes(now_ms)
            self.adoption.advance(now_ms)
            if self.anchor.was_taken:
                self.anchor.was_taken = False
                self._lose("another member was in the group in the cluster, and has left")
            self.anchor.advance(now_ms, is_live=self.engine.is_live)
            if self.anchor.ended:
                self._commits.end_strays()
            if self.anchor.wants_look:
                self._look()
            if self._commits.next_up:
                self._advance(self._commits.next_up.pop(), now_ms)
                continue
            if self._waiting and self._advance_waiting(now_ms):
                continue
            if not self.engine.has_work(now_ms):
                break
        if not (self._calls or self.engine.is_live or self.adoption.is_under_way):
            self._rest()
        if self.standing.outbox:
            self._effects += self.standing.take_outbox()
        effects = tuple(self._effects)
        self._effects.clear()
        return effects

    def _advance_waiting(self, now_ms: int) -> bool:
        """Advance the calls that wait if what they wait for has changed."""
        anchor = self.anchor
        seen = (anchor.phase, anchor.is_here, anchor.confirmed, self.adoption.outlook)
        if seen == self._seen:
            return False
        self._seen = seen
        for call in self._waiting:
            self._advance(call, now_ms)
        return True

    def _rest(self) -> None:
        """Free what only members and calls need."""
        self.engine.unload_if_quiet()
        if self._has_place and self.engine.phase is LogPhase.UNLOADED:
            self.rules.hosted.give_back(self.group_id)
            self._has_place = False

    # -- a call, until the engine has it ---------------------------------------------------------

    def _asked(self, call: Call, now_ms: int) -> None:
        self._calls[call.token] = call
        call.asked_ms, call.was_held = now_ms, self.anchor.is_here
        if isinstance(call, Commits):
            self._commits.arrived(call)
        self._advance(call, now_ms)

    def _advance(self, call: Call, now_ms: int) -> None:
        """Move the call on until it waits for something."""
        self._waiting.drop(call)
        before = None
        while before is not call.stage:
            before = call.stage
            match call.stage:
                case Stage.QUEUED:
                    assert isinstance(call, Commits)
                    self._queue(call, now_ms)
                case Stage.PLACING:
                    if not self._adopting(call, now_ms):
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
        if self._commits.is_next(call):
            call.give_up_ms = None
            call.move(Stage.PLACING)
        else:
            self._wait_at_most(call, now_ms + MEMBER_PATIENCE_MS, now_ms)

    def _place(self, call: Call, now_ms: int) -> None:
        """Who answers for the group, and is the client at its coordinator?"""
        if not call.is_placed and not self.engine.is_live:
            if call.is_foreign:
                call.move(Stage.RELEASING)
                return
            if self.engine.phase is LogPhase.LOADING:  # its members may be in the log
                self._waiting.add(call)
                return
            verdict = self.standing.verdict_for(call, now_ms)
            if verdict is None:
                self._wait_for_look(call)
                return
            if not self._is_ours(call, verdict):
                return
        if not call.is_placed:
            if call.is_at_coordinator is None:
                if call.errand is None:
                    call.send_on(Locate())
                return
            if not call.is_at_coordinator:
                self._refuse(call, Situation.NOT_AT_COORDINATOR)
                return
        if not call.items:
            call.move(Stage.RELEASING)
        elif call.api not in JOINS or call.is_placed or self._is_held:
            self._begin(call, now_ms)
        else:
            call.move(Stage.ADMITTING if call.is_checked else Stage.CHECKING)

    def _adopting(self, call: Call, now_ms: int) -> bool:
        """Whether the group is being adopted. Then the cluster answers, or the adoption, or the
        call waits."""
        treatment = self.adoption.treatment
        if treatment is None or call.is_placed or self.engine.is_live:
            return False
        if treatment is Treatment.FORWARDED:
            self._finish(call, Forwarded("it is about to be adopted"))
            return True
        if treatment is Treatment.RECALLED and isinstance(call, Commits):
            answer = self.adoption.store(call, self.engine.topics)
        else:
            answer = self.adoption.answer(call, now_ms)
        if answer is not None:
            self._finish(call, answer)
        elif call.errand is None:
            patience_ms = JOIN_PATIENCE_MS if call.api in JOINS else MEMBER_PATIENCE_MS
            self._wait_at_most(call, now_ms + patience_ms, now_ms)
        return True

    def _is_ours(self, call: Call, verdict: Verdict) -> bool:
        """Whether the gateway hosts the group. Answers the call if not."""
        if verdict.mode is Mode.HOSTED:
            return True
        if verdict.situation is None or ANSWERS[verdict.situation, call.api] is None:
            self._finish(call, Forwarded(verdict.why))
        else:
            self._refuse(call, verdict.situation, verdict.why)
        return False

    @property
    def _is_held(self) -> bool:
        """Whether the group has members and its anchor, so that another member takes nothing."""
        return self.engine.is_live and (
            not self.rules.can_anchor or self.anchor.phase is AnchorPhase.STABLE
        )

    def _check(self, call: Call, now_ms: int) -> None:
        """Refuse what the engine refuses, before anything is taken for it."""
        if not (self._has_place or self._take_place(call)):
            return
        if self.engine.phase is LogPhase.UNLOADED:
            self.engine.load()
        if self.engine.phase is LogPhase.LOADING:
            self._waiting.add(call)
            return
        if self.engine.phase is LogPhase.UNREADABLE:
            self._refuse(call, Situation.LOADING)
            return
        refusal = None if call.is_checked else self.engine.refusal(call, now_ms)
        if refusal is not None:
            self._effects.append(refusal_line(self.group_id, call, refusal))
            self._finish(call, refusal)
            return
        call.is_checked = True
        if not call.knows_topics:
            # Now, because calls that wait for the anchor together would lose their order.
            if call.errand is None:
                call.send_on(Learn())
            return
        call.move(Stage.ADMITTING if self.engine.is_live or call.has_look else Stage.PLACING)

    def _admit(self, call: Call, now_ms: int) -> None:
        """Hold the group before a member may join."""
        is_first = call.give_up_ms is None
        if is_first and not (self.engine.is_live or self.rules.log_health.may_begin(now_ms)):
            self._refuse(call, Situation.LOG_FAILED)
            return
        patience_ms = MEMBER_PATIENCE_MS if self.engine.is_live else JOIN_PATIENCE_MS
        event = call.event
        if isinstance(event, JoinGroupReceived) and event.asks_for_id and not self._is_ending:
            # The client comes back with the id, and the anchor joins meanwhile.
            if not self.rules.can_anchor or self._need_anchor(call, now_ms):
                self._begin(call, now_ms)
            return
        if self._ids_for(call, patience_ms, now_ms) is None:
            return
        if isinstance(event, JoinGroupReceived):
            call.event = replace(event, waited_ms=now_ms - call.asked_ms)
        self.standing.host(self.standing.verdict.why)
        self._effects += self.standing.take_outbox()  # before the events of its members
        self._begin(call, now_ms)

    def _begin(self, call: Call, now_ms: int) -> None:
        """Hand the call to the engine, once the topics that it names are known."""
        if not (self._has_place or self._take_place(call)):
            return
        call.move(Stage.DECIDING)
        call.give_up_ms = None
        if call.knows_topics:
            self.engine.put(call.items)
        elif not self._refuse_at_once(call.items, now_ms):
            call.send_on(Learn())

    def _refuse_at_once(self, items: Sequence[Item], now_ms: int) -> bool:
        """Refuse what the engine refuses, before the cluster is asked about topics."""
        if not self.engine.is_loaded:
            return False
        refusals = [self.engine.refusal(item, now_ms) for item in items]
        decided = [(item, reply) for item, reply in zip(items, refusals, strict=True) if reply]
        if len(decided) < len(items):
            return False
        self.engine.outcomes.extend(decided)
        return True

    def _located(self, call: Call, is_here: bool | None, now_ms: int) -> None:
        if call.answer is not None:
            return
        call.errand = None
        if is_here is None:
            self._refuse(call, Situation.COORDINATOR_UNKNOWN, "no coordinator is known")
            return
        call.is_at_coordinator = is_here
        self._advance(call, now_ms)

    def _learned(self, call: Call, failure: str, now_ms: int) -> None:
        if call.answer is not None:
            return
        call.errand = None
        call.knows_topics = not failure
        if failure:
            fields = {"group_id": self.group_id, "reason": failure}
            self._effects.append(Log("warning", "topics_unknown", fields))
            refused = Refused(Situation.TOPICS_UNKNOWN, "its topics are unknown")
            self.engine.outcomes.extend((item, refused) for item in call.items)
        elif call.stage is Stage.CHECKING:
            self._advance(call, now_ms)
        else:
            self.engine.put(call.items)

    # -- the engine's decision -------------------------------------------------------------------

    def _take_outcomes(self, now_ms: int) -> None:
        while self.engine.outcomes:
            outcomes, self.engine.outcomes = self.engine.outcomes, []
            for item, outcome in outcomes:
                if not isinstance(outcome, Failed) and outcome.why:
                    self._effects.append(refusal_line(self.group_id, item, outcome))
                if isinstance(item, Commit):
                    self._commits.decided(item, outcome)
                    self._store_if_decided(item.call, now_ms)
                else:
                    self._decided(item, outcome, now_ms)

    def _decided(self, call: Call, outcome: Reply | Refused | Failed, now_ms: int) -> None:
        if isinstance(outcome, Refused | Failed):
            if call.api in JOINS and not (self.engine.is_live or call.was_held):
                self._let_go()
            self._finish(call, outcome)
            return
        if call.answer is not None:
            return
        if call.is_placed or not self.rules.can_anchor:
            self._finish(call, outcome)
        elif grants_partitions(outcome):  # to a member that may have gone again since
            if self.anchor.is_here or self._need_anchor(call, now_ms):
                call.reply = outcome
                call.confirms_since = self.anchor.confirm()
                call.move(Stage.CONFIRMING)
                self._advance(call, now_ms)
        elif not self.engine.is_live:
            if not call.was_held and is_for_good(outcome):
                self._let_go()
            self._finish(call, outcome)
        elif self.anchor.is_here or self._need_anchor(call, now_ms):
            self._finish(call, outcome)

    def _confirm(self, call: Call, now_ms: int) -> None:
        """Before an answer grants partitions, the cluster confirms the anchor: an admin may have
        removed it. The engine has granted them already, and repeats a withheld answer like a lost
        one. A member removed meanwhile gets no grant, because there may be another owner."""
        since = call.confirms_since
        if call.is_overtaken:
            self._refuse(call, Situation.NOT_ANCHORED, "another member has had the group")
        elif self._ids_for(call, MEMBER_PATIENCE_MS, now_ms, since=since) is not None:
            assert call.reply is not None
            refusal = self.engine.refusal(call, now_ms) if call.api in BY_MEMBERS else None
            if refusal is not None and refusal.error in REMOVED:
                self._effects.append(refusal_line(self.group_id, call, refusal))
                call.reply = refusal
            self._finish(call, call.reply)

    # -- commits ---------------------------------------------------------------------------------

    def _store_if_decided(self, call: Commits, now_ms: int) -> None:
        """Store the accepted commits once all of the call are decided."""
        if call.answer is None and not call.in_phase(CommitPhase.RECEIVED):
            call.move(Stage.STORING)
            self._advance(call, now_ms)

    def _store(self, call: Commits, now_ms: int) -> None:
        """Send the accepted commits on the client's own connection. If the cluster refuses the
        anchor, the anchor is repaired and the commits are sent again; the client never sees that
        error."""
        accepted = call.in_phase(CommitPhase.ACCEPTED)
        if call.errand is not None or call.in_phase(CommitPhase.SENT):
            return
        if not accepted:
            self._finish(call, Failed() if call.has_failed else call.outcomes)
            return
        if not self.rules.can_anchor:
            self._commits.send(call, accepted, None, now_ms)
            return
        if call.is_overtaken:
            self._refuse(call, Situation.NOT_ANCHORED, self.anchor.why)
            return
        needs_ids = (
            self.engine.is_live
            or self.anchor.is_here
            or any(commit.has_member for commit in accepted)
            or self.standing.is_left_behind(call, now_ms)
        )
        if needs_ids is None:
            self._wait_for_look(call)
        elif not needs_ids:
            self._commits.send(call, accepted, None, now_ms)
        elif (ids := self._ids_for(call, MEMBER_PATIENCE_MS, now_ms)) is not None:
            self._commits.send(call, accepted, ids, now_ms)
        elif call.answer is None and not call.is_probed:
            call.send_on(Probe())

    def _probed(self, call: Commits, now_ms: int, *, is_there: bool) -> None:
        if call.answer is not None:
            return
        call.errand, call.is_probed = None, True
        if not is_there:
            self._commits.never_sent(call)
        self._advance(call, now_ms)

    def _stored(
        self, call: Commits, codes: Mapping[Token, frozenset[int] | str], now_ms: int
    ) -> None:
        if call.answer is not None:
            return
        call.errand = None
        if call.stage is Stage.PLACING:
            self._finish(call, self.adoption.stored(call, codes))
            return
        self._commits.stored(call, codes, now_ms)
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
        has_given_way = call.give_up_ms is not None and self.anchor.has_given_way
        if not self.rules.can_anchor:
            return NO_IDS
        if has_given_way or self._is_ending:
            why = self.anchor.why if has_given_way else "the gateway is shutting down"
            self._refuse(call, Situation.NOT_ANCHORED, why)
            return None
        if not self._need_anchor(call, now_ms):
            return None
        ids = self.anchor.ids(now_ms, since=since)
        if ids is None:
            waited_ms = self.anchor.lost_for_ms(now_ms) if self.engine.is_live else 0
            self._wait_at_most(call, now_ms + patience_ms - waited_ms, now_ms)
        return ids

    def _need_anchor(self, call: Call, now_ms: int) -> bool:
        """Start the anchor if there is none, and keep it. Refuses the call if there is no room."""
        if self.adoption.is_under_way:
            self._refuse(call, Situation.ADOPTING)
            return False
        if not self.anchor.is_here:
            try:
                self.rules.anchored.check(call.client_host)
            except TooManyGroups as error:
                self._refuse(call, Situation.NOT_ANCHORED, str(error))
                return False
        self.anchor.need(now_ms, is_live=self.engine.is_live, client_host=call.client_host)
        return True

    def _wait_at_most(self, call: Call, give_up_ms: int, now_ms: int) -> None:
        if not self._waiting.add_until(call, give_up_ms, now_ms):
            self._give_up(call)

    def _give_up(self, call: Call) -> None:
        match call.stage:
            case Stage.QUEUED:
                self._refuse(call, Situation.COMMIT_IN_FLIGHT)
            case Stage.PLACING:
                self._refuse(call, Situation.ADOPTING)
            case Stage.RELEASING:
                self._refuse(call, Situation.NOT_ANCHORED, "the anchor has not left yet")
            case _:
                self._refuse(call, Situation.NOT_ANCHORED, self.anchor.why)

    def _let_go(self) -> None:
        """Release the group without lingering, because no member was admitted."""
        if not self._is_awaited:
            self.anchor.drop()

    @property
    def _is_awaited(self) -> bool:
        """Whether a member is about to join."""
        return any(call.stage is Stage.ADMITTING for call in self._waiting)

    def _release(self, call: Call, now_ms: int) -> None:
        """Have the anchor leave an empty group, so that the cluster may change it. If an earlier
        process left an anchor, first take its place."""
        is_there: bool | None = self.anchor.is_here
        if self.rules.can_anchor and not (is_there or call.has_dropped):
            is_there = self.standing.is_left_behind(call, now_ms)
        if is_there is None:
            self._wait_for_look(call)
        elif not is_there:
            self._finish(call, Forwarded() if call.is_foreign else Released())
        elif self.engine.is_live or self._is_awaited:
            self._refuse(call, Situation.NOT_ANCHORED, "a member is about to join")
        elif call.has_dropped or self._need_anchor(call, now_ms):
            call.has_dropped = True
            self.anchor.drop()
            self._wait_at_most(call, now_ms + MEMBER_PATIENCE_MS, now_ms)

    # -- looks at the cluster --------------------------------------------------------------------

    def _wait_for_look(self, call: Call) -> None:
        self._waiting.add(call)
        self._look()

    def _look(self) -> None:
        if not self._is_looking:
            self._is_looking, self._is_look_of_anchor = True, self.anchor.wants_look
            self._effects.append(Look())

    def _looked(self, found: Found, now_ms: int) -> None:
        self._is_looking = False
        self._seen = None
        if self.adoption.is_under_way:
            return  # the group may be held by its leader's member, or by an anchor that is not ours
        for call in self._calls.values():
            call.has_look = True
        is_held = self.engine.is_live or self.anchor.is_here
        verdict = self.standing.take(found, now_ms, is_held=is_held)
        self._effects += self.standing.take_outbox()
        self._watch(found, verdict)
        if not (self.anchor.wants_look and self._is_look_of_anchor):
            return  # a look that began before the anchor was lost may have seen the old anchor
        if verdict.mode not in (Mode.HOSTED, Mode.UNKNOWN):
            self._lose(verdict.why)
        self.anchor.looked(verdict, now_ms)

    def _relayed(self, client: Client, request: Struct, answer: Struct, now_ms: int) -> None:
        """The cluster has answered a request: watch the group, and adopt it if that is wanted."""
        self.rules.watched.relayed(self.group_id, client, request, answer, now_ms)
        is_quiet = isinstance(answer, HeartbeatResponse) and not answer.error_code
        wants = is_quiet and self.rules.standing.adoption == "auto"
        if wants and self.adoption.consider(now_ms):
            self._adopt(Wish())

    def _watch(self, found: Found, verdict: Verdict) -> None:
        """Learn of a forwarded group what no request has told, as after a restart."""
        match found:
            case Occupants(described=DescribedGroup() as group) if verdict.mode is Mode.FORWARDED:
                self.rules.watched.described(group)
            case NoAnswer():
                pass
            case _:
                self.rules.watched.forget(self.group_id)

    def _lose(self, why: str) -> None:
        """Another member has the group in the cluster, or had it."""
        if self.engine.is_live:
            self._effects.append(TellNow(GroupTaken(reason=why)))
            self.engine.note(GroupLost())
        for call in self._calls.values():
            is_decided = call.stage in (Stage.DECIDING, Stage.CONFIRMING)
            call.is_overtaken |= is_decided or isinstance(call, Commits)

    # -- beginning and ending --------------------------------------------------------------------

    def _take_place(self, call: Call) -> bool:
        """Count the group towards the limits. Refuses the call if there is no room."""
        try:
            self.rules.hosted.check(call.client_host)
        except TooManyGroups as error:
            self._refuse(call, Situation.TOO_MANY_GROUPS, str(error))
            return False
        self.rules.hosted.take(self.group_id, call.client_host)
        self._has_place = True
        return True

    def _adopt(self, wish: Wish) -> None:
        """Have the group adopted, if there is room for it."""
        try:
            self.rules.anchored.check(None)
            if not self._has_place:
                self.rules.hosted.check(None)
        except TooManyGroups as error:
            wish.fulfil(AdoptionOutcome.refused(self.group_id, str(error)))
            return
        self.adoption.wish(wish)
        self._resume()

    def _resume(self) -> None:
        """Load the group at the start of the gateway."""
        if self.engine.phase is LogPhase.UNLOADED:
            self.rules.hosted.take(self.group_id, None)
            self._has_place = True
            self.engine.load()

    def _end(self) -> None:
        """The gateway is shutting down: nothing waits from now on."""
        self._is_ending = True
        self.engine.end()
        self.adoption.end()
        for call in self._waiting:
            if call.give_up_ms is not None:
                self._refuse(call, Situation.NOT_ANCHORED, "the gateway is shutting down")

    def _gone(self, call: Call, now_ms: int) -> None:
        """The client has gone. Its request is still decided, and an accepted commit ends."""
        if call.answer is not None:
            return
        call.is_gone = True
        if isinstance(call, Commits):
            if call.stage is Stage.PLACING and isinstance(call.errand, Store):
                self.adoption.lose()
            self._commits.abandon(call, now_ms)
        self._finish(call, Failed())

    def _refuse(self, call: Call, situation: Situation, why: str = "") -> None:
        refused = Refused(situation, why or situation.value)
        if isinstance(call, Commits) and call.stage is Stage.STORING:
            self._commits.refuse(call, refused)
            self._finish(call, call.outcomes)
        else:
            self._finish(call, refused)

    def _finish(self, call: Call, answer: Answer) -> None:
        if call.answer is None:
            self._calls.pop(call.token, None)
            self._waiting.drop(call)
            if isinstance(call, Commits):
                self._commits.answered(call)
            call.finish(answer)
