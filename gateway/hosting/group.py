"""One group behind the gateway: who answers for it, its engine and log, its anchor, and the calls
of its clients.

`handle` takes an input and returns the effects for the driver. Check, decide, make durable, apply,
answer: `call_stages.py` has the way of a call.
"""

from collections.abc import Sequence
from typing import Any, assert_never

from coordinator.handlers.steady import STEADY_REQUESTS
from coordinator.interface.events import GroupLost, Request
from coordinator.interface.records import RemovalCause
from coordinator.interface.replies import Reply
from gateway.events.group_events import GroupTaken, HostingEndCause
from gateway.hosting import inputs
from gateway.hosting.anchor import Anchor, Loss
from gateway.hosting.call_stages import CallStages
from gateway.hosting.calls import (
    Call,
    Commits,
    LearnTopics,
    LocateCoordinator,
    ProbeBroker,
    Refused,
    Reserve,
    StoreCommits,
)
from gateway.hosting.cluster_lookup import ClusterLookup
from gateway.hosting.effects import (
    AnswerClient,
    Ask,
    AskCoordinator,
    Assign,
    Awaited,
    Compute,
    Conclude,
    Describe,
    Effect,
    EmitNow,
    Forget,
    Hold,
    Load,
    Log,
    Look,
    ReportEvents,
    Resolve,
    Write,
)
from gateway.hosting.forwarded import Client, WatchedGroups
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.group_routing import GroupRouting, RoutingDecision
from gateway.hosting.inputs import Input
from gateway.hosting.logged_engine import LoggedEngine
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, LookupOutcome
from gateway.hosting.move import Move
from gateway.hosting.move_requests import AdoptRequest, AnyRequest
from gateway.hosting.newest_connections import NewestConnections
from gateway.hosting.shown_partitions import ShownPartitions
from gateway.hosting.states import AnchorPhase, LogPhase, Mode
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup


class HostedGroup:
    """Inputs and answers to effects come in through `handle`; `next_ms` says when `TimerFired` is
    due."""

    def __init__(self, routing: GroupRouting, *, spread: float = 1.0) -> None:
        """`spread`: this group's factor on the anchor's heartbeat interval."""
        self.group_id = group_id = routing.group_id
        self.rules = rules = routing.rules
        self._effects = routing.outbox
        self.routing = routing
        self.engine = LoggedEngine(group_id, rules.config_of(group_id), effects=self._effects)
        self.anchor = Anchor(
            group_id,
            rules.gateway,
            assignment=ShownPartitions(self.engine).assignment,
            linger_ms=rules.linger_ms,
            spread=spread,
            effects=self._effects,
            end_commit=self.engine.end_commit,
        )
        self._lookup = ClusterLookup(self.anchor, self._effects)
        self.joined_on, self.committed_on = NewestConnections(), NewestConnections()
        """The connections on which members have joined, and on which they have committed: a classic
        client may do so on another."""
        self._loss_cause: HostingEndCause | None = None
        """Why the hosting ends as soon as no members are left here."""
        self._existed = False
        """Whether the group existed when its engine was last at rest."""
        parts = GroupParts(
            routing=routing,
            engine=self.engine,
            anchor=self.anchor,
            joined_on=self.joined_on,
            committed_on=self.committed_on,
        )
        self.move = Move(parts)
        self.calls = CallStages(parts, self.move, self._lookup)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether the group has members here."""
        return self.engine.is_live

    @property
    def why_not_held(self) -> str:
        """Why the anchor, if it is needed, does not hold the group; empty otherwise. The first
        member joins only afterwards, so a group without members may need it as well."""
        match self.anchor.phase:
            case AnchorPhase.JOINING | AnchorPhase.SYNCING | AnchorPhase.LOST:
                is_missed = True
            case AnchorPhase.STABLE | AnchorPhase.RENEWING:
                is_missed = False
            case AnchorPhase.ABSENT | AnchorPhase.LEAVING:
                is_missed = self.is_live and self.rules.can_anchor
        return self.anchor.reason if is_missed else ""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in memory but what the cluster has said of the group, and nothing is
        under way for it."""
        return (
            self.engine.phase is LogPhase.UNLOADED
            and not (self.calls or self._lookup.is_under_way)
            and not (self.anchor.is_here or self.is_moving or self.move.has_open_steps)
        )

    def next_ms(self) -> int | None:
        """When `TimerFired` is due, in wall-clock milliseconds."""
        next_ms = self.engine.next_ms()
        anchor_ms = self.anchor.next_ms(is_live=self._is_anchored)
        if anchor_ms is not None and (next_ms is None or anchor_ms < next_ms):
            next_ms = anchor_ms
        for at_ms in (self.calls.waiting.next_ms(), self.move.next_ms()):
            if at_ms is not None and (next_ms is None or at_ms < next_ms):
                next_ms = at_ms
        return next_ms

    # -- inputs ----------------------------------------------------------------------------------

    def take_at_rest(self, event: Input, now_ms: int) -> AnswerClient | StoreCommits | None:
        """Take an input the short way if the group is at rest: a heartbeat is answered, a commit
        sent, or its end noted. Returns the one effect; `next_ms` stays. Otherwise nothing has
        changed, and the input is to be handled."""
        match event:
            case inputs.Done() if isinstance(event.effect, StoreCommits):
                commits = event.effect.call
                is_taken = self.calls.end_at_rest(commits, event.result, now_ms)
                return AnswerClient(commits) if is_taken else None
            case inputs.Asked(Commits() as commits):
                return self.send_at_rest(commits, now_ms)
            case inputs.Asked(call) if call.is_at_coordinator and call.knows_topics:
                reply = self.answer_at_rest(call.event, now_ms)
                if reply is None:
                    return None
                call.end(reply)
                return AnswerClient(call)
            case _:
                return None

    def send_at_rest(self, commits: Commits, now_ms: int) -> StoreCommits | None:
        """Have a commit sent as in `take_at_rest`, None if it is to be handled."""
        if not (commits.is_at_coordinator and commits.knows_topics):
            return None
        return self.calls.send_at_rest(commits, now_ms)

    def answer_at_rest(self, event: Request | None, now_ms: int) -> Reply | None:
        """The reply to a heartbeat as in `take_at_rest`, None if it is to be handled. The client is
        at the coordinator, and the topics are known."""
        is_held = self.anchor.is_here or not self.rules.can_anchor
        if not (is_held and self.engine.is_live and isinstance(event, STEADY_REQUESTS)):
            return None
        times = self.calls.answer_times
        decided = self.engine.decide_at_rest(event, now_ms, times.longest_ms)
        if times.are_slow and decided is not None:
            times.record(0)
        return None if decided is None else decided[1]

    def handle(self, event: Input, now_ms: int) -> Sequence[Effect]:  # noqa: PLR0912
        """Take an input. Returns the effects, to be carried out in this order."""
        match event:
            case inputs.Asked(call):
                self.calls.start(call, now_ms)
            case inputs.Gone(call):
                self.calls.on_client_gone(call, now_ms)
            case inputs.TimerFired():
                self.calls.expire(now_ms)
            case inputs.Paused(grace_over_ms):
                self.engine.grace.over_ms = grace_over_ms
            case inputs.TopicsMoved(topics):
                self.engine.topics = topics
            case inputs.EngineEvent(happening):
                self.engine.observe(happening)
            case inputs.SeenForeign(reason):
                self.routing.forward(reason, now_ms)
            case inputs.Relayed(client, request, answer):
                self._on_relayed(client, request, answer, now_ms)
            case inputs.Resumed(is_moving):
                self.move.is_expected |= is_moving
                self._resume()
            case inputs.MoveRequested(AdoptRequest() as request):
                self._effects.append(Reserve(request, is_anchored=True))
            case inputs.MoveRequested(request):
                self._request_move(request, now_ms)
            case inputs.Leave():
                self.anchor.drop()
            case inputs.Ending():
                self._end()
            case inputs.Done(Write()):
                self.engine.on_written(now_ms)
                self._record_log()
            case inputs.Done(effect, result):
                self._on_done(effect, result, now_ms)
            case inputs.Failed(effect, reason):
                self._on_failed(effect, reason, now_ms)
            case _:
                assert_never(event)
        return self._settle(now_ms)

    def _on_done(self, effect: Awaited, result: Any, now_ms: int) -> None:
        """An effect was carried out."""
        match effect:
            case StoreCommits() | LearnTopics() | LocateCoordinator() | ProbeBroker():
                self.calls.on_action_done(effect, result, now_ms)
            case Reserve():
                self._on_reserved(effect, None, now_ms)
            case AskCoordinator():
                self._lose(self.anchor.on_answer(result, now_ms))
            case Look():
                self._on_look(result, now_ms)
            case Load():
                self.engine.on_loaded(result, now_ms)
                self._record_log()
                self.calls.look_again()
                if self.engine.is_live:
                    generation = self.anchor.held_generation
                    self.routing.host("its members are in the state log", generation)
                if self.routing.is_hosting:
                    self.engine.report_snapshot()
            case Forget():
                self.engine.on_forgotten()
            case Compute():
                self.engine.on_computed(None, now_ms)
            case Resolve() | Assign():
                self.engine.observe(result)
            case Describe() | Hold() | Ask():
                self.move.on_done(effect, result, now_ms)
            case _:
                raise TypeError(f"{effect} is not awaited here")

    def _on_failed(self, effect: Awaited, reason: Any, now_ms: int) -> None:
        """An effect has failed, or its outcome is unknown."""
        match effect:
            case LearnTopics() | LocateCoordinator():
                self.calls.on_action_failed(effect, reason)
            case Reserve():
                self._on_reserved(effect, reason, now_ms)
            case Write():
                self.engine.write_failed(reason, now_ms)
            case AskCoordinator():
                self.anchor.on_failure(reason, now_ms)
            case Look():
                self._on_look(LookupFailed(reason), now_ms)
            case Load():
                self.engine.load_failed(reason, now_ms)
                self.calls.look_again()
            case Compute():
                self.engine.on_computed(reason, now_ms)
            case Describe() | Ask():
                self.move.on_failed(effect, reason, now_ms)
            case _:
                raise TypeError(f"{effect} does not fail")

    def start_again(self, now_ms: int) -> Sequence[Effect]:
        """After a bug: end all calls as Unanswerable, load the group again and rejoin. No result of
        an earlier effect may follow."""
        lasting = AnswerClient | Conclude | Log | ReportEvents | Reserve | EmitNow
        self._effects[:] = [effect for effect in self._effects if isinstance(effect, lasting)]
        self._lookup.is_under_way = False
        self.anchor.start_again(now_ms)
        self.move.start_again()
        self.engine.start_again()
        self.calls.start_again(now_ms)
        return self._settle(now_ms)

    def _settle(self, now_ms: int) -> Sequence[Effect]:
        """Draw all conclusions. Returns the effects."""
        while True:
            self.engine.work(now_ms)
            if self.engine.outcomes:
                self.calls.take_outcomes(now_ms)
            self.move.advance(now_ms)
            self._end_lost_hosting()
            self.anchor.advance(now_ms, is_live=self._is_anchored)
            if self.anchor.wants_look:
                self._lookup.begin()
            if not (self.calls.advance(now_ms) or self.engine.has_work(now_ms)):
                break
        if not (self.calls or self.engine.is_live or self.is_moving):
            if self.engine.phase is LogPhase.READY:
                self._existed = self.engine.core.state.group is not None
            self.engine.unload_if_quiet()
        self.routing.report_anchor(self.anchor.held_generation)
        if self.routing.is_hosting and self.is_idle:
            self._end_hosting("forgotten" if self._existed else "group_deleted")
        return self.routing.take_outbox()

    def _end_lost_hosting(self) -> None:
        """Report that the hosting is over, once no members are left here after the group was lost,
        or after the cluster was found to have it."""
        if not self.routing.is_hosting or self.engine.is_live or self.engine.is_deciding:
            return
        is_elsewhere = self.routing.decision.mode in (Mode.FORWARDED, Mode.ELSEWHERE)
        if self._loss_cause is not None:
            self._end_hosting(self._loss_cause)
        elif is_elsewhere and not (self.calls or self.is_moving):
            self._end_hosting("taken")

    def _end_hosting(self, cause: HostingEndCause) -> None:
        self._loss_cause = None
        self.engine.renew_snapshot()
        self.routing.end_hosting(cause)

    @property
    def is_moving(self) -> bool:
        """Whether the group changes its coordinator, or is about to."""
        return self.move.is_under_way

    @property
    def _is_anchored(self) -> bool:
        """Whether members may hold partitions, so that the anchor must keep the group."""
        return self.engine.is_live or self.move.keeps_anchor

    def _record_log(self) -> None:
        state = self.engine.core.state
        self.routing.record_log(is_adopted=state.is_adopted, release=state.release)

    # -- lookups in the cluster ------------------------------------------------------------------

    def _on_look(self, outcome: LookupOutcome, now_ms: int) -> None:
        is_for_anchor = self._lookup.end()
        self.calls.look_again()
        if self.move.is_adopting:
            return  # the group may be held by its leader's member, or by an anchor that is not ours
        if self.engine.is_live and self.anchor.is_here and not is_for_anchor:
            return  # it may have seen the members that have been adopted since
        self._lookup.latest_outcome = outcome
        self.calls.on_look()
        is_held = self.engine.is_live or self.anchor.is_here
        has_native_join = self.calls.has_native_join
        decision = self.routing.take(
            outcome, now_ms, is_held=is_held, has_native_join=has_native_join
        )
        watch_occupants(self.rules.watched, self.group_id, outcome, decision)
        if not is_for_anchor:
            return  # a lookup that began before the anchor was lost may have seen the old anchor
        if decision.mode not in (Mode.HOSTED, Mode.UNKNOWN):
            self._lose(GroupTaken(reason=decision.reason))
        self.anchor.on_look(decision, now_ms)

    def _on_relayed(self, client: Client, request: Struct, answer: Struct, now_ms: int) -> None:
        """The cluster has answered a request: watch the group, and adopt it if that is wanted."""
        self.rules.watched.record_relayed(self.group_id, client, request, answer, now_ms)
        self.move.on_relayed(answer, now_ms)
        self.routing.record_relayed(client.connection, request, answer, now_ms)
        if self.routing.invites_adoption(answer) and self.move.may_consider(now_ms):
            self._effects.append(Reserve(AdoptRequest(), is_anchored=True))

    def _lose(self, loss: Loss | None) -> None:
        """Another member has the group in the cluster, or may have had it, if there is a loss."""
        if loss is None:
            return
        if self.routing.is_hosting:
            self._loss_cause = "taken" if isinstance(loss, GroupTaken) else "anchor_lost"
        if self.engine.is_live:
            self._effects.append(EmitNow(loss))
            self.engine.observe(GroupLost(cause=RemovalCause(loss.name)))
        self.calls.supersede()
        self.move.on_group_lost()

    # -- beginning and ending --------------------------------------------------------------------

    def _on_reserved(self, reserved: Reserve, refusal: Refused | None, now_ms: int) -> None:
        """The group counts towards the limits, or they leave no room for it."""
        claim = reserved.claim
        if isinstance(claim, Call):
            self.calls.on_reserved(claim, reserved, refusal, now_ms)
        elif refusal is None:
            self._request_move(claim, now_ms)
        else:
            self.move.refuse(claim, refusal.reason)

    def _request_move(self, request: AnyRequest, now_ms: int) -> None:
        """Have the group adopted or released."""
        if self.move.accept(request, now_ms):
            self._resume()

    def _resume(self) -> None:
        """Load the group though no client has asked for it."""
        if self.engine.phase is LogPhase.UNLOADED:
            self.engine.load()

    def _end(self) -> None:
        """The gateway is shutting down: nothing waits from now on."""
        self.engine.end()
        self.move.end()
        self.calls.refuse_waiting()


def watch_occupants(
    watched: WatchedGroups, group_id: str, outcome: LookupOutcome, decision: RoutingDecision
) -> None:
    """Learn of a forwarded group what no request has told, as after a restart."""
    match outcome:
        case LiveMembers(described=DescribedGroup() as group) if decision.mode is Mode.FORWARDED:
            watched.record_described(group)
        case LookupFailed():
            pass
        case _:
            watched.forget(group_id)
