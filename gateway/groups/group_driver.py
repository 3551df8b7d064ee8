"""Carries out the effects of one group, in one Trio task, and lends it the clock."""

import itertools
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog
import trio

from coordinator.interface.events import (
    LeaverStayed,
    Request,
)
from coordinator.interface.replies import Reply
from gateway.cluster.errors import UpstreamError
from gateway.events.group_events import (
    GroupAdopted,
)
from gateway.groups.group_reporter import GroupReporter
from gateway.groups.group_work import GroupWork, Services
from gateway.groups.relayed_calls import RelayedCalls
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.calls import (
    Abandoned,
    Answer,
    Call,
    Commits,
    Forwarded,
    LearnTopics,
    LocateCoordinator,
    PendingAction,
    Reserve,
    StoreCommits,
    Unanswerable,
    refuse,
)
from gateway.hosting.effects import (
    AnswerClient,
    Conclude,
    Effect,
    EmitNow,
    Forget,
    Log,
    ReportEvents,
    Work,
    carry_out,
)
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import (
    Asked,
    Done,
    EngineEvent,
    Failed,
    Gone,
    Input,
    Leave,
    MoveRequested,
    Paused,
    TimerFired,
    TopicsMoved,
)
from gateway.hosting.move_requests import AnyRequest, MoveRequest, Outcome
from gateway.quotas.quota_key import QuotaKey

CLOSES_WITHIN_S = 1.0
"""How soon a client that is restarted closes its connection, once it has left the group."""
RESTART_S = 1.0
"""The delay before a group continues after a bug."""

_revisions = itertools.count()

log = structlog.get_logger()

DoErrand = Callable[[PendingAction], Awaitable[Input]]
"""Carries out `ProbeBroker` and `StoreCommits` on the client's own connection."""


@dataclass(slots=True, eq=False)
class _Waiter:
    """The client's side of a call."""

    pending_action: PendingAction | None = None
    """The pending action of the machine that the task of the client carries out."""
    changed: Callable[[], object] | None = None
    """Called once, when there is an action or an answer."""


class GroupDriver:
    """Feeds one group with inputs. Its task runs while there is something to wait for."""

    def __init__(
        self,
        group: HostedGroup,
        services: Services,
        *,
        relayed: RelayedCalls,
        forget: "Callable[[GroupDriver], None]",
        owner: QuotaKey | None = None,
    ) -> None:
        """`relayed`: the calls to the group that the cluster answers, of this driver or without
        one. `forget` is called once nothing of the group is in memory. `owner`: whose
        request has named the group first."""
        self.group = group
        self.revision = next(_revisions)
        """Another one, of all drivers, after each input that may have changed what the group
        shows."""
        self.reporter = GroupReporter(
            group,
            services.clock,
            services.journal,
            services.offsets,
            services.counts,
            owner=owner,
        )
        self._services = services
        self.work = GroupWork(group, services, self.reporter, relayed, owner)
        self._forget = forget
        self._inputs: deque[Input] = deque()
        self._changed: deque[Callable[[], object]] = deque()
        """Who is to learn that a call has changed, once the effects are carried out."""
        self._is_feeding = False
        self._grace_over_ms = 0
        """What the group was last told about pauses."""
        self._is_refreshing = False
        self._left: trio.Event | None = None
        """Set when the anchor has left, if a task waits for it."""
        self._todo: list[Callable[[], Awaitable[Input | None]]] = []
        self._at_work = 0
        """Effects under way."""
        self._is_running = False
        self._wakes_ms: float = math.inf
        self._woken = trio.Event()
        self._rest_s = 0.0
        """How long effects wait after a bug, so that a bug that repeats itself costs little."""
        self._effects_end = trio.CancelScope()
        self.is_closed = False
        """Whether the group is no longer this driver's, but that of the next one, or of another
        process: nothing that it is fed has an effect."""
        self.relayed = relayed

    async def ask(self, call: Call, do: DoErrand | None = None) -> Answer:
        """The group's answer. `do` sends the commits of a call. A cancelled call is still decided,
        and an accepted commit then counts as ended."""
        answer = self.begin(call)
        return await self.finish(call, do) if answer is None else answer

    def begin(self, call: Call) -> Answer | None:
        """Ask the group. None if the answer takes time; then `finish` must follow immediately."""
        call.knows_topics = self.work.topics.covers(call.topic_names)
        if call.api is GroupApi.CONSUMER_JOIN:
            call.overrides = self._services.state_log.config_overrides(self.group.group_id)
        call.client = _Waiter()
        if self.is_closed:
            call.end(refuse(RefusalReason.NOT_AT_COORDINATOR))
        else:
            self.feed(Asked(call))
        return call.answer

    def answer_at_rest(self, event: Request) -> Reply | None:
        """The reply to a heartbeat of a client at the coordinator that names no topics, if the
        group is at rest. None otherwise; then nothing has changed, and it is to be asked as a
        call."""
        if self._is_feeding or self._inputs or self.is_closed or not self.work.topics.covers(()):
            return None
        return self.group.answer_at_rest(event, self._services.clock.now_ms())

    def send_at_rest(self, call: Commits) -> StoreCommits | None:
        """Have a commit accepted if the group is at rest. Returns the pending action that
        stores it, which needs no task. None otherwise; then nothing has changed."""
        if self._is_feeding or self._inputs or self.is_closed:
            return None
        call.knows_topics = self.work.topics.covers(call.topic_names)
        return self.group.send_at_rest(call, self._services.clock.now_ms())

    async def finish(self, call: Call, do: DoErrand | None = None) -> Answer:
        """Run the pending actions of a call that has begun, until it is answered."""
        waiter: _Waiter = call.client or _Waiter(call.pending_action)
        call.client = waiter
        try:
            while call.answer is None:
                pending_action, waiter.pending_action = waiter.pending_action, None
                if pending_action is None:
                    changed = trio.Event()
                    waiter.changed = changed.set
                    await changed.wait()
                else:
                    self.feed(await self._carry_out_errand(pending_action, do))
        except BaseException:
            self.abandon(call)
            raise
        return call.answer

    async def _carry_out_errand(self, pending_action: PendingAction, do: DoErrand | None) -> Input:
        match pending_action:
            case LearnTopics():
                return await self.work.learn_topics(pending_action)
            case LocateCoordinator():
                return await self.work.locate_coordinator(pending_action)
            case _:
                assert do is not None
                return await do(pending_action)

    def watch(self, call: Call, changed: Callable[[], None]) -> bool:
        """Have `changed` called once, when a call that has begun has its answer, or an action; then
        `finish` must follow. False if it has one already."""
        waiter: _Waiter = call.client
        if waiter.pending_action is not None or call.answer is not None:
            return False
        waiter.changed = changed
        return True

    def abandon(self, call: Call) -> None:
        """The client no longer waits for the answer."""
        self.relayed.end(call)
        if call.answer is None:
            call.client = None
            self.feed(Gone(call))

    def watch_leaver(self, member_id: str, is_connected: Callable[[], bool]) -> None:
        """End the slot of a member that has left, unless its client closes its connection soon, as
        one does that is restarted."""
        engine = self.group.engine
        if engine.is_loaded and member_id in engine.core.state.member_slots:
            self._services.nursery.start_soon(self._end_slot, member_id, is_connected)

    async def _end_slot(self, member_id: str, is_connected: Callable[[], bool]) -> None:
        await trio.sleep(CLOSES_WITHIN_S)
        if is_connected():
            self.feed(EngineEvent(LeaverStayed(member_id)))

    async def move(self, request: MoveRequest[Outcome]) -> Outcome:
        """Have the group adopted or released. If the caller is cancelled, the move continues."""
        request.operator = concluded = trio.Event()
        self.feed(MoveRequested(request))
        await concluded.wait()
        assert request.outcome is not None
        return request.outcome

    def feed(self, event: Input) -> None:
        """Give the group an input, and carry out what it leads to. Never blocks."""
        if self.is_closed:
            return
        effect = None
        if not (self._is_feeding or self._inputs):
            effect = self.group.take_at_rest(event, self._services.clock.now_ms())
        if effect is None:
            self._handle(event)
        else:
            carry_out(effect, self)
            if self._changed:
                self._report_changes()

    def _handle(self, event: Input) -> None:
        self._inputs.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._inputs:
                now_ms = self._services.clock.now_ms()
                try:
                    self._report_of_pauses(now_ms)
                    self._carry_out(self.group.handle(self._inputs.popleft(), now_ms))
                except Exception:  # the boundary: a bug in one group must not end the others
                    self._carry_out(self._start_again(now_ms))
        finally:
            self._is_feeding = False
        self.reporter.report_costs()
        if self.group.engine.has_regexes:
            self.work.topics.follow_names()
        if self._left is not None and not self.group.anchor.is_here:
            self._left.set()
        self._plan()
        self._report_changes()

    def _report_of_pauses(self, now_ms: int) -> None:
        """Give the members of the group their grace, before it acts on this time."""
        grace_over_ms = self._services.pauses.observe(now_ms)
        if grace_over_ms > max(now_ms, self._grace_over_ms):
            self._grace_over_ms = grace_over_ms
            self._carry_out(self.group.handle(Paused(grace_over_ms), now_ms))

    def _start_again(self, now_ms: int) -> Sequence[Effect]:
        log.exception("group_failed", group_id=self.group.group_id)
        results = Done | Failed
        self._inputs = deque(event for event in self._inputs if not isinstance(event, results))
        self._todo.clear()
        self._rest_s = RESTART_S
        self._effects_end.cancel()
        return self.group.start_again(now_ms)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            carry_out(effect, self)

    # -- the surroundings of the group -----------------------------------------------------------

    def log(self, line: Log) -> None:
        """Log a line."""
        self.reporter.log(line)

    def report(self, events: ReportEvents | EmitNow) -> None:
        """Report events that have nothing to write."""
        match events:
            case EmitNow(event):
                self.reporter.report_now(events)
                if isinstance(event, GroupAdopted):
                    self._todo.append(self.work.learn_topics_of_group)
            case ReportEvents(decisions):
                self.reporter.report(decisions)

    def answer(self, call: Call) -> None:
        """Wake the client's side of a call that has its answer. Count the call from the moment when
        it is decided that the cluster answers it, and its refusals."""
        if call.client is None:
            return
        if isinstance(call.answer, Forwarded):
            self.relayed.add(call)
        else:
            self._services.counts.record_answer(call.answer)
        self._wake(call.client)

    def start_action(self, pending_action: PendingAction) -> None:
        """Have the client's task run an action."""
        waiter: _Waiter | None = pending_action.call.client
        if waiter is not None:
            waiter.pending_action = pending_action
            self._wake(waiter)

    def _wake(self, waiter: _Waiter) -> None:
        if waiter.changed is not None:
            self._changed.append(waiter.changed)
            waiter.changed = None

    def conclude(self, request: AnyRequest) -> None:
        """Wake the operator's task, unless the request is the gateway's own."""
        concluded: trio.Event | None = request.operator
        if concluded is not None:
            concluded.set()

    def reserve(self, effect: Reserve) -> None:
        """Count the group towards the limits, if there is room for it."""
        now_ms = self._services.clock.now_ms()
        refusal = self._services.limits.reserve(self.group, effect, now_ms)
        self._inputs.append(Done(effect) if refusal is None else Failed(effect, refusal))

    def start_work(self, effect: Work) -> None:
        """Have the task of the group carry out an effect."""
        has_work = not isinstance(effect, Forget) or (
            self._services.journal.has_told(self.group.group_id)
        )
        if has_work:
            self._todo.append(partial(self.work.carry_out, effect, self.feed))
        else:
            self._inputs.append(Done(effect))

    # -- its task --------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Begin or wake the task if it has something to do earlier than it thinks."""
        if self.is_closed:
            return
        self.revision = next(_revisions)
        self._services.limits.follow(self.group)
        next_ms = self.group.next_ms()
        if next_ms is None and self.group.is_idle:
            self._forget(self)
        if not self._is_running:
            if self._todo or next_ms is not None:
                self._is_running = True
                self._services.nursery.start_soon(self._run)
        elif self._todo or (next_ms is not None and next_ms < self._wakes_ms):
            self._woken.set()

    def _report_changes(self) -> None:
        while self._changed:
            self._changed.popleft()()

    async def _run(self) -> None:
        structlog.contextvars.clear_contextvars()  # inherited from the first client's connection
        while True:
            await trio.sleep(self._rest_s)
            self._at_work, self._rest_s = 0, 0.0
            async with trio.open_nursery() as nursery:
                self._effects_end = nursery.cancel_scope
                await self._work(nursery)
                nursery.cancel_scope.cancel()
            if self.is_closed or (not self._todo and self.group.next_ms() is None):
                break
        self._is_running = False

    async def _work(self, nursery: trio.Nursery) -> None:
        """Begin effects and pass time until there is nothing left to wait for, or the group starts
        again: effects that began here afterwards would be cancelled with those before."""
        while not nursery.cancel_scope.cancel_called:
            todo, self._todo = self._todo, []
            for work in todo:
                self._at_work += 1
                nursery.start_soon(self._do, work)
            next_ms = self.group.next_ms()
            if next_ms is None and not self._at_work and not self._todo:
                return
            self._wakes_ms = math.inf if next_ms is None else next_ms
            self._woken = trio.Event()
            if self._todo:
                continue
            with trio.move_on_after(self._services.clock.seconds_until(next_ms)):
                await self._woken.wait()
            next_ms = self.group.next_ms()
            if next_ms is not None and next_ms <= self._services.clock.now_ms():
                self.feed(TimerFired())
                if not (self._is_refreshing or self.work.topics.covers(frozenset())):
                    self._is_refreshing = True
                    nursery.start_soon(self._refresh_topics)

    async def _refresh_topics(self) -> None:
        """Follow the cluster's topics. Deadlines do not wait for it, since the cluster may hang."""
        try:
            self.feed(TopicsMoved(await self.work.learn(frozenset())))
        except UpstreamError:
            pass  # the cluster is asked again with the next request
        except Exception:  # the boundary, as above
            log.exception("topics_unknown", group_id=self.group.group_id)
        finally:
            self._is_refreshing = False

    async def _do(self, work: Callable[[], Awaitable[Input | None]]) -> None:
        """Carry out an effect that takes time, and tell the group what came of it, unless the group
        has started again meanwhile."""
        effects_end = self._effects_end
        try:
            answer = await work()
        except Exception:  # the boundary, as above
            self._at_work -= 1
            self._carry_out(self._start_again(self._services.clock.now_ms()))
            self._plan()
            self._report_changes()
            return
        if effects_end.cancel_called:
            return
        self._at_work -= 1
        if answer is None:
            self._woken.set()
        else:
            self.feed(answer)
            if not self._at_work:
                self._woken.set()

    @property
    def is_busy(self) -> bool:
        """Whether calls are under way, or something is being decided or written."""
        return bool(self.group.calls) or self.group.engine.is_deciding or self._is_feeding

    def close(self) -> None:
        """Leave the group to another process. Calls that are still under way are refused, the
        connections of commits end as if this process were killed, and no further events of the
        group are written."""
        self.is_closed = True
        self._effects_end.cancel()
        self.work.cancel_computations()
        self._todo.clear()
        for effect in self.group.start_again(self._services.clock.now_ms()):
            if isinstance(effect, AnswerClient):
                call = effect.call
                if isinstance(call.answer, Unanswerable):
                    # It is unknown whether the cluster has the commit.
                    is_commit = isinstance(call, Commits)
                    call.answer = (
                        Abandoned() if is_commit else refuse(RefusalReason.NOT_AT_COORDINATOR)
                    )
            if isinstance(effect, AnswerClient | Conclude):
                carry_out(effect, self)
        self._woken.set()
        self._report_changes()
        self._services.limits.free(self.group.group_id)

    async def leave(self) -> None:
        """Have the anchor leave, with or without members in the group."""
        self._left = trio.Event()
        self.feed(Leave())
        await self._left.wait()
