"""The stages that each call of a group's clients goes through until it is answered.

A call is refused before anything is taken for it. No member joins, and no answer with partitions
leaves, unless the anchor holds the group. `commit_stages.py` has what is particular to commits.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    SyncGroupReceived,
)
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from gateway.hosting import hold
from gateway.hosting.answers import BY_MEMBERS, JOINS, GroupApi, Situation
from gateway.hosting.call_router import CallRouter
from gateway.hosting.calls import (
    Call,
    Commit,
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
    refused,
)
from gateway.hosting.commit_stages import CommitStages
from gateway.hosting.effects import Log, refusal_line
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.logged_engine import Item
from gateway.hosting.move import Move
from gateway.hosting.open_calls import JOIN_PATIENCE_MS, MEMBER_PATIENCE_MS, OpenCalls
from gateway.hosting.routes import Route
from gateway.hosting.standing import Found
from gateway.hosting.states import LogPhase, Stage

_FOR_THE_ANCHOR = (Stage.ADMITTING, Stage.CONFIRMING)
"""The stages of calls that wait for nothing but the anchor."""
ANSWER_TIMES_KEPT = 100
"""The longest of so many is at least their 99th percentile."""


class CallStages:
    """Moves each call on until it waits for something."""

    def __init__(self, parts: GroupParts, move: Move) -> None:
        self.open_calls = OpenCalls(parts, move)
        """The calls without an answer."""
        self.commits = CommitStages(parts, move, self.open_calls)
        self._router = CallRouter(parts, move)
        self._parts = parts
        self._engine, self._anchor = parts.engine, parts.anchor
        self._effects = parts.effects
        self._move = move
        self._times: deque[int] = deque(maxlen=ANSWER_TIMES_KEPT)
        """How long the latest heartbeats took, in milliseconds, that took the long way. Those at
        rest take no time."""
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

    def on_look(self, outcome: Found) -> None:
        """A look at the cluster has ended."""
        config = self._parts.config
        for call in self.open_calls.by_token.values():
            call.has_look = True
            call.held = hold.refusal(call, config, outcome)

    @property
    def has_native_join(self) -> bool:
        """Whether a consumer of the new protocol waits to join."""
        return any(call.api is GroupApi.CONSUMER_JOIN for call in self.open_calls.by_token.values())

    def overtake(self) -> None:
        """Another member has the group in the cluster, or had it."""
        for call in self.open_calls.by_token.values():
            is_decided = call.stage in (Stage.DECIDING, Stage.CONFIRMING)
            call.is_overtaken |= is_decided or isinstance(call, Commits)

    def advance(self, now_ms: int) -> bool:
        """Advance calls whose turn has come. False if there is none."""
        if self._anchor.ended:
            self.open_calls.commits.end_strays()
        if self.open_calls.commits.next_up:
            self._advance(self.open_calls.commits.next_up.pop(), now_ms)
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
                    self.commits.queue(call, now_ms)
                case Stage.PLACING:
                    self._place(call, now_ms)
                case Stage.CHECKING:
                    self._check(call, now_ms)
                case Stage.ADMITTING:
                    self._admit(call, now_ms)
                case Stage.STORING:
                    assert isinstance(call, Commits)
                    self.commits.store(call, now_ms)
                case Stage.CONFIRMING:
                    self._confirm(call, now_ms)
                case Stage.RELEASING:
                    self._release(call, now_ms)
                case Stage.DECIDING | Stage.ANSWERED:
                    return

    def _place(self, call: Call, now_ms: int) -> None:
        """Find out who answers the call."""
        match self._router.route(call, now_ms):
            case Route.HERE:
                self._enter(call, now_ms)
            case Route.CLUSTER_WITHOUT_ANCHOR:
                call.move(Stage.RELEASING)
            case Route.AFTER_LOOK:
                self.open_calls.wait_for_look(call)
            case Route.AFTER_LOAD:
                self.open_calls.wait(call)
            case Route.AFTER_MOVE if call.errand is None:
                self.open_calls.wait_for_move(call, now_ms)
            case Route.AFTER_LOCATE if call.errand is None:
                self.open_calls.run_errand(LocateCoordinator(call))
            case Route():
                pass  # an errand is under way
            case StoreCommits() as errand:
                self._effects.append(errand)
            case answer:
                self.open_calls.answer(call, answer)

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
            self.open_calls.refuse(call, Situation.LOADING)
            return
        refusal = None if call.is_checked else self._engine.refusal(call, now_ms)
        if refusal is not None:
            self._effects.append(refusal_line(self._parts.group_id, call, refusal))
            self.open_calls.answer(call, refusal)
            return
        call.is_checked = True
        if not call.knows_topics:
            # Now, because calls that wait for the anchor together would lose their order.
            if call.errand is None:
                self.open_calls.run_errand(LearnTopics(call))
            return
        call.move(Stage.ADMITTING if self._engine.is_live or call.has_look else Stage.PLACING)

    def _admit(self, call: Call, now_ms: int) -> None:
        """Hold the group before a member may join."""
        if not self.open_calls.has_anchor_place(call):
            return
        patience_ms = MEMBER_PATIENCE_MS if self._engine.is_live else JOIN_PATIENCE_MS
        event = call.event
        if (
            isinstance(event, JoinGroupReceived)
            and event.asks_for_id
            and not self.open_calls.is_ending
        ):
            # The client comes back with the id, and the anchor joins meanwhile.
            if not self._parts.rules.can_anchor or self.open_calls.need_anchor(call, now_ms):
                self._begin(call, now_ms)
            return
        if self.open_calls.anchor_ids(call, patience_ms, now_ms) is None:
            return
        if isinstance(event, JoinGroupReceived):
            call.event = replace(event, waited_ms=now_ms - call.asked_ms)
        standing = self._parts.standing
        standing.host(standing.verdict.why, self._anchor.held_generation)
        self._engine.report_snapshot()
        self._begin(call, now_ms)

    def _begin(self, call: Call, now_ms: int) -> None:
        """Hand the call to the engine, once the topics that it names are known."""
        if not self._has_place(call):
            return
        call.move(Stage.DECIDING)
        call.give_up_ms = None
        if isinstance(call.event, ConsumerHeartbeatReceived):
            call.event = replace(call.event, answers_within_ms=max(self._times, default=0))
        if call.knows_topics:
            self._engine.put(call.items)
        elif not self._refuse_at_once(call.items, now_ms):
            self.open_calls.run_errand(LearnTopics(call))

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
                    self.open_calls.commits.never_sent(commits)
                self._advance(call, now_ms)
            case StoreCommits(call=commits), Mapping():
                self.commits.on_stored(commits, result, now_ms)
            case _:
                raise TypeError(f"{result} is no result of {errand}")

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
            self.open_calls.refuse(call, refusal.situation, refusal.why)

    def fail_errand(self, errand: LearnTopics | LocateCoordinator, why: str) -> None:
        """An errand has failed, and so does its call."""
        call = errand.call
        if call.answer is not None:
            return
        call.errand = None
        match errand:
            case LocateCoordinator():
                self.open_calls.refuse(call, Situation.COORDINATOR_UNKNOWN, why)
            case LearnTopics():
                fields = {"group_id": self._parts.group_id, "reason": why}
                self._effects.append(Log("warning", "topics_unknown", fields))
                refusal = refused(Situation.TOPICS_UNKNOWN, "its topics are unknown")
                self._engine.outcomes.extend((item, refusal) for item in call.items)

    # -- the engine's decision -------------------------------------------------------------------

    def take_outcomes(self, now_ms: int) -> None:
        """Move on the calls that the engine has decided."""
        while self._engine.outcomes:
            outcomes, self._engine.outcomes = self._engine.outcomes, []
            for item, outcome in outcomes:
                if not isinstance(outcome, Unanswerable) and outcome.why:
                    self._effects.append(refusal_line(self._parts.group_id, item, outcome))
                if isinstance(item, Commit):
                    call = item.call
                    assert call is not None
                    self.open_calls.commits.on_decision(item, outcome)
                    self.commits.store_if_decided(call, now_ms)
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
        if call.api is GroupApi.CONSUMER_JOIN:
            self.open_calls.commits.on_native_join(call, outcome)
        if call.answer is not None:
            return
        if call.is_placed or not self._parts.rules.can_anchor:
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

    def _confirm(self, call: Call, now_ms: int) -> None:
        """Before an answer grants partitions, the cluster confirms the anchor: an admin may have
        removed it. The engine has granted them already, and repeats a withheld answer like a lost
        one. A member removed meanwhile gets no grant, because there may be another owner."""
        since = call.confirms_since
        if call.is_overtaken:
            self.open_calls.refuse(call, Situation.NOT_ANCHORED, "another member has had the group")
        elif self.open_calls.anchor_ids(call, MEMBER_PATIENCE_MS, now_ms, since=since) is not None:
            assert call.reply is not None
            refusal = self._engine.refusal(call, now_ms) if self._has_gone(call) else None
            if refusal is not None:
                self._effects.append(refusal_line(self._parts.group_id, call, refusal))
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
        self.open_calls.answer(call, reply)

    def _note_time(self, call: Call, now_ms: int) -> None:
        """Only of members: a first member also waits for the anchor."""
        if isinstance(call.event, ConsumerHeartbeatReceived) and call.event.member_epoch > 0:
            self._times.append(now_ms - call.asked_ms)

    def _release(self, call: Call, now_ms: int) -> None:
        """Have the anchor leave an empty group, so that the cluster may change it. If an earlier
        process left an anchor, first take its place."""
        is_there: bool | None = self._anchor.is_here
        if self._parts.rules.can_anchor and not (is_there or call.has_dropped):
            is_there = self._parts.standing.is_left_behind(call, now_ms)
        if is_there is None:
            self.open_calls.wait_for_look(call)
        elif not is_there:
            self.open_calls.answer(call, Forwarded() if call.is_foreign else Released())
        elif self._move.has_begun:
            self.open_calls.refuse(call, Situation.MOVING)
        elif self._engine.is_live or self.open_calls.is_join_waiting:
            self.open_calls.refuse(call, Situation.NOT_ANCHORED, "a member is about to join")
        elif not self.open_calls.has_anchor_place(call):
            pass
        elif call.has_dropped or self.open_calls.need_anchor(call, now_ms):
            call.has_dropped = True
            self._anchor.drop()
            self.open_calls.wait_at_most(call, now_ms + MEMBER_PATIENCE_MS, now_ms)

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
            self.commits.abandon(call, now_ms)
        self.open_calls.answer(call, Unanswerable())

    def start_again(self, now_ms: int) -> None:
        """After a bug: answer all calls with Unanswerable."""
        for call in tuple(self.open_calls.by_token.values()):
            if isinstance(call, Commits):
                self.open_calls.commits.abandon_undecided(call)
                self.commits.abandon(call, now_ms)
            self.open_calls.answer(call, Unanswerable())
