"""Carries out the effects of one group, in one Trio task, and lends it the clock."""

import contextlib
import itertools
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog
import trio

from coordinator.engine import GroupEngine
from coordinator.group.topic_names import topics_of_group, topics_of_request
from coordinator.interface.events import (
    AssignmentReceived,
    LeaverStayed,
    RegexesResolved,
    Request,
)
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Computation
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.events.event import DecisionEvents
from gateway.events.group_events import (
    GroupAdopted,
    TopicsDeleted,
)
from gateway.groups.clock import Clock
from gateway.groups.cluster_group_reader import ClusterGroupReader
from gateway.groups.compute_thread import ComputeThread
from gateway.groups.group_coordinator import (
    AskCoordinatorNode,
    CoordinatorOf,
    GroupCoordinator,
)
from gateway.groups.group_limits import GroupLimits
from gateway.groups.group_reporter import GroupReporter, forget_events
from gateway.groups.pauses import Pauses
from gateway.groups.regex_resolver import RegexResolver
from gateway.groups.relayed_calls import RelayedCalls
from gateway.groups.topics_image import TopicsImage
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
    Ask,
    AskCoordinator,
    Assign,
    Compute,
    Conclude,
    Describe,
    Effect,
    EmitNow,
    Forget,
    Hold,
    Load,
    LoadedGroup,
    Log,
    Look,
    ReportEvents,
    Resolve,
    Work,
    Write,
    carry_out,
)
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import (
    Asked,
    Damage,
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
from gateway.journal.journal import Journal, last_events
from gateway.observers.counts import GroupCounts
from gateway.observers.offset_reporter import OffsetReporter
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.last_events import LogRecord
from gateway.state_log.log import StateLog, StateLogError, StateLogRefused, StateLogUnsure

CLOSES_WITHIN_S = 1.0
"""How soon a client that is restarted closes its connection, once it has left the group."""
RESTART_S = 1.0
"""The delay before a group goes on after a bug."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the drivers of all groups use."""

    clock: Clock
    cluster: Cluster
    cluster_reader: ClusterGroupReader
    state_log: StateLog
    journal: Journal
    offsets: OffsetReporter
    resolver: RegexResolver
    compute_thread: ComputeThread
    assign: Callable[[Computation], Awaitable[AssignmentReceived]]
    """What a plug-in answers."""
    coordinator_of: CoordinatorOf
    ask_coordinator: AskCoordinatorNode
    nursery: trio.Nursery
    pauses: Pauses
    limits: GroupLimits
    counts: GroupCounts = field(default_factory=GroupCounts)


class GroupDriver:
    """Feeds one group with inputs. Its task runs while there is something to wait for."""

    def __init__(
        self,
        group: HostedGroup,
        services: Services,
        *,
        relayed: RelayedCalls,
        idle: Callable[[str], None],
        owner: QuotaKey | None = None,
    ) -> None:
        """`relayed`: the calls to the group that the cluster answers, of this driver or without
        one. `idle` learns the id of the group while nothing of it is in memory. `owner`: whose
        request has named the group first."""
        self.group = group
        self.revision = next(_revisions)
        """Another one, of all drivers, after each input that may have changed what the group
        shows."""
        self.topics = TopicsImage(services.cluster)
        self.reporter = GroupReporter(
            group,
            services.clock,
            services.journal,
            services.offsets,
            services.counts,
            owner=owner,
        )
        self._services = services
        self._coordinator = GroupCoordinator(
            group.group_id, services.coordinator_of, services.ask_coordinator, services.state_log
        )
        self._idle = idle
        self._owner = owner
        self._inputs: deque[Input] = deque()
        self._changed: deque[Callable[[], object]] = deque()
        """Who is to learn that a call has changed, once the effects are carried out."""
        self._is_feeding = False
        self._grace_over_ms = 0
        """What the group was last told of pauses."""
        self._is_refreshing = False
        self._left: trio.Event | None = None
        """Set when the anchor has left, if somebody waits for it."""
        self._learning = trio.Lock()
        self._todo: list[Callable[[], Awaitable[Input | None]]] = []
        self._at_work = 0
        """Effects under way."""
        self._is_running = False
        self._wakes_ms: float = math.inf
        self._woken = trio.Event()
        self._rest_s = 0.0
        """How long effects wait after a bug, so that a bug that repeats itself costs little."""
        self._effects_end = trio.CancelScope()
        self._resolving = trio.CancelScope()
        self._assigning = trio.CancelScope()
        self._is_closed = False
        """Whether another process goes on with the group."""
        self.relayed = relayed

    async def ask(self, call: Call, do: DoErrand | None = None) -> Answer:
        """The group's answer. `do` sends the commits of a call. A cancelled call is still decided,
        and an accepted commit then counts as ended."""
        answer = self.begin(call)
        return await self.finish(call, do) if answer is None else answer

    def begin(self, call: Call) -> Answer | None:
        """Ask the group. None if the answer takes time; then `finish` must follow at once."""
        call.knows_topics = self.topics.covers(call.topic_names)
        if call.api is GroupApi.CONSUMER_JOIN:
            call.overrides = self._services.state_log.config_overrides(self.group.group_id)
        call.client = _Waiter()
        if self._is_closed:
            call.end(refuse(RefusalReason.NOT_AT_COORDINATOR))
        else:
            self.feed(Asked(call))
        return call.answer

    def answer_at_rest(self, event: Request) -> Reply | None:
        """The reply to a heartbeat of a client at the coordinator that names no topics, if the
        group is at rest. None otherwise; then nothing has changed, and it is to be asked as a
        call."""
        if self._is_feeding or self._inputs or self._is_closed or not self.topics.covers(()):
            return None
        return self.group.answer_at_rest(event, self._services.clock.now_ms())

    def send_at_rest(self, call: Commits) -> StoreCommits | None:
        """Have a commit accepted if the group is at rest. Returns the pending action that
        stores it, which needs no task. None otherwise; then nothing has changed."""
        if self._is_feeding or self._inputs or self._is_closed:
            return None
        call.knows_topics = self.topics.covers(call.topic_names)
        pending_action = self.group.take_at_rest(Asked(call), self._services.clock.now_ms())
        return pending_action if isinstance(pending_action, StoreCommits) else None

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
                return await self._learn_topics(pending_action)
            case LocateCoordinator():
                return await self._locate_coordinator(pending_action)
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
        """Nobody waits for the answer any more."""
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
        """Have the group adopted or released. Cancelled, the move goes on."""
        request.operator = concluded = trio.Event()
        self.feed(MoveRequested(request))
        await concluded.wait()
        assert request.outcome is not None
        return request.outcome

    def feed(self, event: Input) -> None:
        """Give the group an input, and carry out what it leads to. Never blocks."""
        if self._is_closed:
            return
        effect = None
        if not (self._is_feeding or self._inputs):
            effect = self.group.take_at_rest(event, self._services.clock.now_ms())
        if effect is None:
            self._handle(event)
        else:
            carry_out(effect, self)
            if self._changed:
                self._tell_changes()

    def _handle(self, event: Input) -> None:
        self._inputs.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._inputs:
                now_ms = self._services.clock.now_ms()
                try:
                    self._tell_of_pauses(now_ms)
                    self._carry_out(self.group.handle(self._inputs.popleft(), now_ms))
                except Exception:  # the boundary: a bug in one group must not end the others
                    self._carry_out(self._start_again(now_ms))
        finally:
            self._is_feeding = False
        self.reporter.report_costs()
        if self.group.engine.has_regexes:
            self.topics.follow_names()
        if self._left is not None and not self.group.anchor.is_here:
            self._left.set()
        self._plan()
        self._tell_changes()

    def _tell_of_pauses(self, now_ms: int) -> None:
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
                    self._todo.append(self._learn_topics_of_group)
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
            self._services.counts.note_answer(call.answer)
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
            self._todo.append(partial(self._work_on, effect))
        else:
            self._inputs.append(Done(effect))

    # -- its task --------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Begin or wake the task if it has something to do earlier than it thinks."""
        self.revision = next(_revisions)
        self._services.limits.follow(self.group)
        next_ms = self.group.next_ms()
        if next_ms is None and self.group.is_idle:
            self._idle(self.group.group_id)
        if not self._is_running:
            if self._todo or next_ms is not None:
                self._is_running = True
                self._services.nursery.start_soon(self._run)
        elif self._todo or (next_ms is not None and next_ms < self._wakes_ms):
            self._woken.set()

    def _tell_changes(self) -> None:
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
            if self._is_closed or (not self._todo and self.group.next_ms() is None):
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
                if not (self._is_refreshing or self.topics.covers(frozenset())):
                    self._is_refreshing = True
                    nursery.start_soon(self._refresh_topics)

    async def _refresh_topics(self) -> None:
        """Follow the cluster's topics. Deadlines do not wait for it, since the cluster may hang."""
        try:
            self.feed(TopicsMoved(await self.learn(frozenset())))
        except UpstreamError:
            pass  # the cluster is asked again with the next request
        except Exception:  # the boundary, as above
            log.exception("topics_unknown", group_id=self.group.group_id)
        finally:
            self._is_refreshing = False

    async def learn(self, names: frozenset[str], owner: QuotaKey | None = None) -> Topics:
        """The topics that the group refers to, these included. `owner`: whose request names them,
        if one does; otherwise they count towards whoever named the group first. Raises
        UpstreamError."""
        owner = owner or self._owner
        async with self._learning:  # two at a time would lose each other's names
            if self.topics.is_crowded:
                self.topics.keep_only(topics_of_group(self.group.engine.core.state))
            topics = await self.topics.get(names, owner)
        if deleted := self.topics.take_deleted():
            event = TopicsDeleted(topics=tuple(sorted(deleted)), topic_ids=deleted)
            decision = DecisionEvents((event,), self._services.clock.now_ms())
            self.reporter.report([decision])
        return topics

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
            self._tell_changes()
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

    async def _learn_topics_of_group(self) -> Input | None:
        """Learn the topics of an adopted group: none of its members may name them for hours, and
        the end of a grant has no words without them."""
        try:
            names = topics_of_group(self.group.engine.core.state)
            return TopicsMoved(await self.learn(names))
        except UpstreamError:
            return None  # the next request that names them asks again

    async def _learn_topics(self, pending_action: LearnTopics) -> Input:
        call = pending_action.call
        try:
            return Done(pending_action, await self.learn(call.topic_names, call.owner))
        except UpstreamError as error:
            return Failed(pending_action, str(error))

    async def _locate_coordinator(self, pending_action: LocateCoordinator) -> Input:
        is_here = await locate(self._services, self.group.group_id, pending_action.call)
        if is_here is None:
            return Failed(pending_action, "no coordinator is known")
        return Done(pending_action, is_here)

    @property
    def is_busy(self) -> bool:
        """Whether calls are under way, or something is being decided or written."""
        return bool(self.group.calls) or self.group.engine.is_deciding or self._is_feeding

    def close(self) -> None:
        """Leave the group to another process. Calls that are still under way are refused, the
        connections of commits end as if this process were killed, and no further events of the
        group are written."""
        self._is_closed = True
        for scope in (self._effects_end, self._resolving, self._assigning):
            scope.cancel()
        self._todo.clear()
        for effect in self.group.start_again(self._services.clock.now_ms()):
            if isinstance(effect, AnswerClient):
                call = effect.call
                if isinstance(call.answer, Unanswerable):
                    # Nobody knows whether the cluster has the commit.
                    is_commit = isinstance(call, Commits)
                    call.answer = (
                        Abandoned() if is_commit else refuse(RefusalReason.NOT_AT_COORDINATOR)
                    )
            if isinstance(effect, AnswerClient | Conclude):
                carry_out(effect, self)
        self._woken.set()
        self._tell_changes()
        self._services.limits.free(self.group.group_id)

    async def leave(self) -> None:
        """Have the anchor leave, with or without members in the group."""
        self._left = trio.Event()
        self.feed(Leave())
        await self._left.wait()

    async def _work_on(self, effect: Work) -> Input | None:
        """Carry out an effect. Returns what came of it, unless the group has learned that."""
        reader, group_id = self._services.cluster_reader, self.group.group_id
        match effect:
            case Look():
                return Done(effect, await reader.look_up(group_id))
            case Describe():
                return Done(effect, await reader.describe(group_id))
            case Load():
                return await self._load(effect)
            case Write():
                return await self._write(effect)
            case Forget():
                return await self._forget(effect)
            case Compute():
                return await self._compute(effect)
            case Resolve():
                await self._resolve(effect)
                return None
            case Assign():
                await self._assign(effect)
                return None
            case AskCoordinator():
                return await self._coordinator.ask_for_anchor(effect)
            case Ask():
                return await self._coordinator.ask_for_move(effect)
            case Hold():
                await self.relayed.until_none()
                return Done(effect)

    async def _load(self, effect: Load) -> Input:
        """Read the group from its log. What is being resolved or computed belongs to the old
        state."""
        self._resolving.cancel()
        self._assigning.cancel()
        group_id, services = self.group.group_id, self._services
        try:
            engine = GroupEngine(group_id, self.group.rules.config_of(group_id))
            records = await services.state_log.read(group_id)
            engine.load(records, now_ms=services.clock.now_ms())
            services.journal.take_up(group_id)
            topics = await self.learn(topics_of_group(engine.state))
            return Done(effect, LoadedGroup(engine, topics))
        except (StateLogError, UpstreamError) as error:
            return Failed(effect, str(error))
        except Exception as error:  # the boundary: one group that cannot be loaded
            return Failed(effect, repr(error))

    async def _write(self, effect: Write) -> Input:
        """Write records and events; the events are told once the log has them."""
        group_id, services, batch = self.group.group_id, self._services, effect.batch
        decisions = [decision.reported for decision in batch.decisions]
        self.reporter.make_way(decisions)
        stamped = services.journal.stamp_batch(decisions, group_id)
        last = last_events(stamped)
        began_s = trio.current_time()
        has_failed = True
        try:
            records: Sequence[LogRecord] = (*batch.durable, *([] if last is None else [last]))
            await services.state_log.append(group_id, records)
            has_failed = False
            services.limits.log_health.on_write(None, services.clock.now_ms())
        except StateLogError as error:
            log.error("state_log_failed", group_id=group_id, reason=str(error))  # noqa: TRY400
            services.journal.drop_batch(group_id)
            match error:
                case StateLogUnsure():
                    damage = Damage.UNSURE
                case StateLogRefused():
                    damage = Damage.REFUSED
                case _:
                    damage = Damage.NONE
            services.limits.log_health.on_write(damage, services.clock.now_ms())
            return Failed(effect, damage)
        finally:
            services.counts.log_writes.note(trio.current_time() - began_s, failed=has_failed)
        try:
            for decision, envelopes in zip(batch.decisions, stamped, strict=True):
                services.journal.pass_on(envelopes, decision.reported.owner)
                self.reporter.follow(decision.reported)
        except Exception:  # the boundary: the log has the batch, so the group is loaded with it
            log.exception("group_failed", group_id=group_id)
            return Failed(effect, Damage.UNSURE)
        return Done(effect)

    async def _forget(self, effect: Forget) -> Input:
        """End the sequence of a deleted group, whose lines are all written. If the log fails,
        `Forgetting` does it later."""
        with contextlib.suppress(StateLogError):
            await forget_events(
                self.group.group_id, self._services.journal, self._services.state_log
            )
        return Done(effect)

    async def _compute(self, effect: Compute) -> Input:
        try:
            await self._services.compute_thread.run(effect.compute)
        except Exception as error:  # the boundary: the group decides what a bug leads to
            return Failed(effect, error)
        return Done(effect)

    async def _resolve(self, effect: Resolve) -> None:
        """Match the group's regular expressions while the group goes on."""
        regexes = effect.resolution.regexes
        group_id, resolver = self.group.group_id, self._services.resolver
        with trio.CancelScope() as self._resolving, resolver.under_way(group_id):
            try:
                event = await resolver.resolve(group_id, regexes, self._owner)
                self.feed(TopicsMoved(await self.learn(topics_of_request(event))))
            except UpstreamError as error:
                log.warning("regexes_unresolved", group_id=group_id, reason=str(error))
                event = RegexesResolved(topics=None)
            except Exception:  # the boundary: a bug in matching ends no group
                log.exception("regexes_unresolved", group_id=group_id)
                event = RegexesResolved(topics=None)
            self.feed(Done(effect, event))

    async def _assign(self, effect: Assign) -> None:
        """Have a plug-in compute a target while the group goes on."""
        with trio.CancelScope() as self._assigning:
            self.feed(Done(effect, await self._services.assign(effect.computation)))


async def locate(services: Services, group_id: str, call: Call) -> bool | None:
    """Whether the client's listener stands for the group's coordinator; None if that is unknown."""
    try:
        return call.node_id == await services.coordinator_of(group_id, call.owner)
    except UpstreamError as error:
        log.warning("coordinator_unknown", group_id=group_id, reason=str(error))
        return None
