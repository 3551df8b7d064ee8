"""Carries out the effects of one group, in one Trio task, and lends it the clock."""

import contextlib
import itertools
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never, cast
from weakref import WeakSet

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
from gateway.events.event import Told
from gateway.events.group_events import GroupForwarded, GroupHosted, TopicsGone
from gateway.groups.aside import Aside
from gateway.groups.clock import Clock
from gateway.groups.cluster_look import ClusterLook
from gateway.groups.regex_resolver import RegexResolver
from gateway.groups.topics_image import TopicsImage
from gateway.hosting import adoption_steps
from gateway.hosting.adoption_steps import (
    AdoptionOutcome,
    Answered,
    Ask,
    Describe,
    Described,
    Drained,
    Hold,
    Unanswered,
    Wish,
)
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Answer, Call, Commits, Errand, Forwarded, Learn, Locate
from gateway.hosting.effects import (
    AskCoordinator,
    Assign,
    Compute,
    Effect,
    Forget,
    Load,
    Log,
    Look,
    OfAdoption,
    Resolve,
    Tell,
    TellNow,
    Write,
)
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import (
    Adopt,
    Asked,
    Computed,
    CoordinatorAnswered,
    CoordinatorFailed,
    Damage,
    Forgotten,
    Gone,
    Happened,
    Input,
    Learned,
    Leave,
    Loaded,
    LoadFailed,
    Located,
    Looked,
    Release,
    StepTaken,
    TimePassed,
    TopicsMoved,
    WriteFailed,
    Written,
)
from gateway.hosting.owner import Owner
from gateway.hosting.release_steps import ReleaseOutcome, ReleaseWish
from gateway.journal.journal import Journal, last_events
from gateway.observers.counts import GroupCounts
from gateway.observers.offset_reporter import OffsetReporter
from gateway.state_log.last_events import FORGOTTEN, LogRecord
from gateway.state_log.log import StateLog, StateLogError, StateLogRefused, StateLogUnsure
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode, name_of

_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""The broker has done nothing: it is not the coordinator, or not yet."""
CLOSES_WITHIN_S = 1.0
"""How soon a client that is restarted closes its connection, once it has left the group."""
RESTART_S = 1.0
"""The delay before a group goes on after a bug."""

_revisions = itertools.count()

log = structlog.get_logger()

DoErrand = Callable[[Errand], Awaitable[Input]]
"""Carries out the errands `Probe` and `Store` on the client's own connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the drivers of all groups use."""

    clock: Clock
    cluster: Cluster
    look: ClusterLook
    state_log: StateLog
    journal: Journal
    offsets: OffsetReporter
    resolver: RegexResolver
    aside: Aside
    assign: Callable[[Computation], Awaitable[AssignmentReceived]]
    """What a plug-in answers."""
    coordinator_of: Callable[[str, Owner | None], Awaitable[int]]
    """The node id of a group's coordinator. Raises UpstreamError."""
    ask_coordinator: Callable[[int, Struct], Awaitable[Struct]]
    """A coordinator's answer to an anchor's request. Raises UpstreamError."""
    nursery: trio.Nursery
    counts: GroupCounts = field(default_factory=GroupCounts)


class GroupDriver:
    """Feeds one group with inputs. Its task runs while there is something to wait for."""

    def __init__(
        self,
        group: HostedGroup,
        services: Services,
        *,
        idle: Callable[[str], None],
        owner: Owner | None = None,
    ) -> None:
        """`idle` learns the id of the group while nothing of it is in memory. `owner`: whose
        request has named the group first."""
        self.group = group
        self.revision = next(_revisions)
        """Another one, of all drivers, after each input that may have changed what the group
        shows."""
        self.topics = TopicsImage(services.cluster)
        self._services = services
        self._idle = idle
        self._owner = owner
        self._inputs: deque[Input] = deque()
        self._changed: deque[Callable[[], None]] = deque()
        """Who is to learn that a call has changed, once the effects are carried out."""
        self._is_feeding = False
        self._is_refreshing = False
        self._left: trio.Event | None = None
        """Set when the anchor has left, if somebody waits for it."""
        self._learning = trio.Lock()
        self._todo: list[Effect] = []
        self._at_work = 0
        """Effects under way."""
        self._is_running = False
        self._node_id: int | None = None
        """The last known coordinator."""
        self._wakes_ms: float = math.inf
        self._woken = trio.Event()
        self._rest_s = 0.0
        """How long effects wait after a bug, so that a bug that repeats itself costs little."""
        self._effects_end = trio.CancelScope()
        self._resolving = trio.CancelScope()
        self._assigning = trio.CancelScope()
        self._relaying: WeakSet[Call] = WeakSet()
        """The calls that the cluster answers."""
        self._relayed = trio.lowlevel.ParkingLot()
        """Where `Hold` waits for them."""

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
        call.on_change = partial(self._note_answer, call)
        self.feed(Asked(call))
        return call.answer

    def answer_at_rest(self, event: Request) -> Reply | None:
        """The reply to a heartbeat of a client at the coordinator that names no topics, if the
        group is at rest. None otherwise; then nothing has changed, and it is to be asked as a
        call."""
        if self._is_feeding or self._inputs or not self.topics.covers(()):
            return None
        return self.group.answer_at_rest(event, self._services.clock.now_ms())

    def send_at_rest(self, call: Commits) -> bool:
        """Have a commit accepted if the group is at rest, so that the errand `Store` can be carried
        out without a task. False otherwise; then nothing has changed."""
        call.knows_topics = self.topics.covers(call.topic_names)
        is_first = not (self._is_feeding or self._inputs)
        return is_first and self.group.take_at_rest(Asked(call), self._services.clock.now_ms())

    async def finish(self, call: Call, do: DoErrand | None = None) -> Answer:
        """Run the errands of a call that has begun, until it is answered."""
        changed = trio.lowlevel.ParkingLot()

        def on_change() -> None:
            self._note_answer(call)
            changed.unpark_all()

        if call.answer is None:  # which may have come since the beginning
            call.on_change = on_change
        try:
            while call.answer is None:
                match call.errand:
                    case None:
                        await changed.park()
                    case Learn():
                        self.feed(await self._learned(call))
                    case Locate():
                        self.feed(await self._located(call))
                    case errand:
                        assert do is not None
                        self.feed(await do(errand))
        except BaseException:
            self.abandon(call)
            raise
        return call.answer

    def watch(self, call: Call, changed: Callable[[], None]) -> bool:
        """Have `changed` called once, when a call that has begun has its answer, or an errand; then
        `finish` must follow. False if it has one already."""
        if call.errand is not None or call.answer is not None:
            return False

        def on_change() -> None:
            call.on_change = partial(self._note_answer, call)
            self._note_answer(call)
            self._changed.append(changed)

        call.on_change = on_change
        return True

    def abandon(self, call: Call) -> None:
        """Nobody waits for the answer any more."""
        self._end_relay(call)
        if call.answer is None:
            call.on_change = None
            self.feed(Gone(call))

    def watch_leaver(self, member_id: str, is_connected: Callable[[], bool]) -> None:
        """End the place of a member that has left, unless its client closes its connection soon, as
        one does that is restarted."""
        engine = self.group.engine
        if engine.is_loaded and member_id in engine.core.state.places:
            self._services.nursery.start_soon(self._end_place, member_id, is_connected)

    async def _end_place(self, member_id: str, is_connected: Callable[[], bool]) -> None:
        await trio.sleep(CLOSES_WITHIN_S)
        if is_connected():
            self.feed(Happened(LeaverStayed(member_id)))

    def _note_answer(self, call: Call) -> None:
        """Count the call from the moment when it is decided that the cluster answers it, and its
        refusals."""
        if isinstance(call.answer, Forwarded):
            self._relaying.add(call)
        else:
            self._services.counts.note_answer(call.answer)

    @contextlib.contextmanager
    def relaying(self, call: Call) -> Iterator[None]:
        """While the cluster answers the call, the group stays in memory and is not adopted."""
        try:
            yield
        finally:
            self._end_relay(call)
            self._plan()

    def _end_relay(self, call: Call) -> None:
        self._relaying.discard(call)
        self._relayed.unpark_all()

    async def adopt(self, wish: Wish) -> AdoptionOutcome:
        """Have the group adopted. Cancelled, the adoption goes on."""
        fulfilled = trio.Event()
        wish.on_outcome = fulfilled.set
        self.feed(Adopt(wish))
        await fulfilled.wait()
        assert wish.outcome is not None
        return wish.outcome

    async def release(self, wish: ReleaseWish) -> ReleaseOutcome:
        """Have the group released. Cancelled, the release goes on."""
        fulfilled = trio.Event()
        wish.on_outcome = fulfilled.set
        self.feed(Release(wish))
        await fulfilled.wait()
        assert wish.outcome is not None
        return wish.outcome

    def feed(self, event: Input) -> None:
        """Give the group an input, and carry out what it leads to. Never blocks."""
        is_first = not (self._is_feeding or self._inputs)
        if not (is_first and self.group.take_at_rest(event, self._services.clock.now_ms())):
            self._handle(event)

    def _handle(self, event: Input) -> None:
        self._inputs.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._inputs:
                now_ms = self._services.clock.now_ms()
                try:
                    self._carry_out(self.group.handle(self._inputs.popleft(), now_ms))
                except Exception:  # the boundary: a bug in one group must not end the others
                    self._carry_out(self._start_again(now_ms))
        finally:
            self._is_feeding = False
        if self.group.engine.has_regexes:
            self.topics.follow_names()
        if self._left is not None and not self.group.anchor.is_here:
            self._left.set()
        self._plan()
        self._tell_changes()

    def _start_again(self, now_ms: int) -> Sequence[Effect]:
        log.exception("group_failed", group_id=self.group.group_id)
        self._inputs.clear()
        self._todo.clear()
        self._rest_s = RESTART_S
        self._effects_end.cancel()
        return self.group.start_again(now_ms)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Log() | TellNow():
                    self._services.counts.note_line(effect)
                    journal, group_id = self._services.journal, self.group.group_id
                    carry_out_now(effect, group_id, journal, self._owner)
                case Tell(told):
                    self._make_way(told)
                    for each in told:
                        self._services.journal.tell_decision(each, self.group.group_id)
                case Forget() if not self._services.journal.has_told(self.group.group_id):
                    self._inputs.append(Forgotten())
                case _:
                    self._todo.append(effect)

    def _plan(self) -> None:
        """Begin or wake the task if it has something to do earlier than it thinks."""
        self.revision = next(_revisions)
        next_ms = self.group.next_ms()
        if next_ms is None and self.group.is_idle and not self._relaying:
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
            if not self._todo and self.group.next_ms() is None:
                break
        self._is_running = False

    async def _work(self, nursery: trio.Nursery) -> None:
        """Begin effects and pass time until there is nothing left to wait for."""
        while True:
            todo, self._todo = self._todo, []
            for effect in todo:
                self._at_work += 1
                nursery.start_soon(self._do, effect)
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
                self.feed(TimePassed())
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

    async def learn(self, names: frozenset[str], owner: Owner | None = None) -> Topics:
        """The topics that the group refers to, these included. `owner`: whose request names them,
        if one does; otherwise they count towards whoever named the group first. Raises
        UpstreamError."""
        owner = owner or self._owner
        async with self._learning:  # two at a time would lose each other's names
            if self.topics.is_crowded:
                self.topics.keep_only(topics_of_group(self.group.engine.core.state))
            topics = await self.topics.get(names, owner)
        if gone := self.topics.take_gone():
            event, group_id = TopicsGone(topics=gone), self.group.group_id
            for each in (*self._services.offsets.make_way(group_id, (event,)), event):
                self._services.journal.tell(each, group_id)
        return topics

    async def _do(self, effect: Effect) -> None:
        """Carry out an effect that takes time, and tell the group what came of it."""
        try:
            answer = await self._answer(effect)
        except Exception:  # the boundary, as above
            self._at_work -= 1
            self._carry_out(self._start_again(self._services.clock.now_ms()))
            self._plan()
            self._tell_changes()
            return
        self._at_work -= 1
        if answer is None:
            self._woken.set()
        else:
            self.feed(answer)
            if not self._at_work:
                self._woken.set()

    async def _answer(self, effect: Effect) -> Input | None:
        match effect:
            case Look():
                return Looked(await self._services.look.look(self.group.group_id))
            case Load():
                return await self._load()
            case Write(batch):
                return await self._write([each.told for each in batch.decisions], batch.durable)
            case Forget():
                return await self._forget()
            case Compute(compute):
                return await self._compute(compute)
            case Resolve(resolution):
                await self._resolve(resolution.regexes)
                return None
            case Assign(computation):
                await self._assign(computation)
                return None
            case AskCoordinator(message, looks_up):
                return await self._ask_coordinator(message, looks_up=looks_up)
            case Describe() | Hold() | Ask():
                return StepTaken(await self._take_step(effect))
            case Log() | Tell() | TellNow():
                raise TypeError(f"{effect} takes no time")
            case _:
                assert_never(effect)

    async def _learned(self, call: Call) -> Input:
        try:
            return Learned(call, await self.learn(call.topic_names, call.owner))
        except UpstreamError as error:
            return Learned(call, self.topics.latest, str(error))

    async def _located(self, call: Call) -> Input:
        group_id = self.group.group_id
        try:
            node_id = await self._services.coordinator_of(group_id, call.owner)
            return Located(call, node_id == call.node_id)
        except UpstreamError as error:
            log.warning("coordinator_unknown", group_id=group_id, reason=str(error))
            return Located(call, None)

    async def leave(self) -> None:
        """Have the anchor leave, with or without members in the group."""
        self._left = trio.Event()
        self.feed(Leave())
        await self._left.wait()

    async def _load(self) -> Input:
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
            return Loaded(engine, await self.learn(topics_of_group(engine.state)))
        except (StateLogError, UpstreamError) as error:
            return LoadFailed(str(error))
        except Exception as error:  # the boundary: one group that cannot be loaded
            return LoadFailed(repr(error))

    async def _write(self, batch: Sequence[Told], records: Sequence[LogRecord]) -> Input:
        """Write records and events; the events are told once the log has them."""
        group_id, services = self.group.group_id, self._services
        self._make_way(batch)
        stamped = services.journal.stamp_batch(batch, group_id)
        last = last_events(stamped)
        began_s = trio.current_time()
        has_failed = True
        try:
            await services.state_log.append(group_id, (*records, *([] if last is None else [last])))
            has_failed = False
        except StateLogError as error:
            log.error("state_log_failed", group_id=group_id, reason=str(error))  # noqa: TRY400
            match error:
                case StateLogUnsure():
                    return WriteFailed(Damage.UNSURE)
                case StateLogRefused():
                    return WriteFailed(Damage.REFUSED)
                case _:
                    return WriteFailed(Damage.NONE)
        finally:
            services.counts.log_writes.note(trio.current_time() - began_s, failed=has_failed)
        try:
            for envelopes in stamped:
                services.journal.pass_on(envelopes)
        except Exception:  # the boundary: the log has the batch, so the group is loaded with it
            log.exception("group_failed", group_id=group_id)
            return WriteFailed(Damage.UNSURE)
        return Written()

    def _make_way(self, batch: Sequence[Told]) -> None:
        """Report open commits before the events that end them."""
        group_id, services = self.group.group_id, self._services
        for told in batch:
            if before := services.offsets.make_way(group_id, told.events):
                services.journal.pass_on(services.journal.stamp(Told(before, told.at_ms), group_id))

    async def _forget(self) -> Input:
        """End the sequence of a deleted group, whose lines are all written. If the log fails,
        `Forgetting` does it later."""
        with contextlib.suppress(StateLogError):
            await forget_events(
                self.group.group_id, self._services.journal, self._services.state_log
            )
        return Forgotten()

    async def _compute(self, compute: Callable[[], None]) -> Input:
        try:
            await self._services.aside.run(compute)
        except Exception as error:  # the boundary: the group decides what a bug leads to
            return Computed(error)
        return Computed()

    async def _resolve(self, regexes: Collection[str]) -> None:
        """Match the group's regular expressions while the group goes on."""
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
            self.feed(Happened(event))

    async def _assign(self, computation: Computation) -> None:
        """Have a plug-in compute a target while the group goes on."""
        with trio.CancelScope() as self._assigning:
            self.feed(Happened(await self._services.assign(computation)))

    async def _ask_coordinator(self, message: Struct, *, looks_up: bool) -> Input:
        if looks_up:
            self._node_id = None
        try:
            return CoordinatorAnswered(await self._from_coordinator(message))
        except UpstreamError as error:
            return CoordinatorFailed(str(error))

    async def _from_coordinator(self, message: Struct) -> Struct:
        """The answer of the group's coordinator. Raises UpstreamError."""
        if self._node_id is None:
            self._node_id = await self._services.coordinator_of(self.group.group_id, None)
        return await self._services.ask_coordinator(self._node_id, message)

    async def _take_step(self, step: OfAdoption) -> adoption_steps.Input:
        """Carry out a step of the group's adoption or release."""
        group_id = self.group.group_id
        match step:
            case Describe():
                return Described(await self._services.look.describe(group_id))
            case Hold():
                while self._relaying:
                    await self._relayed.park()
                return Drained()
            case Ask(lane, message):
                if not self._services.state_log.may_answer:
                    return Unanswered(lane, "another gateway may go on with the adoption")
                try:
                    answer = await self._from_coordinator(message)
                    code = cast(int, getattr(answer, "error_code", ErrorCode.NONE))
                    if code not in _MOVED:
                        return Answered(lane, answer)
                    why = name_of(code)
                except UpstreamError as error:
                    why = str(error)
                self._node_id = None  # another coordinator may have the group by now
                return Unanswered(lane, why)


def carry_out_now(
    effect: Log | TellNow, group_id: str, journal: Journal, owner: Owner | None = None
) -> None:
    """Log a line, or report an event. `owner`: whose request has named the group."""
    match effect:
        case Log(level, event, fields, error):
            getattr(log, level)(event, **fields, **({"exc_info": error} if error else {}))
        case TellNow(GroupForwarded() | GroupHosted() as event):
            journal.tell(event, group_id, owner)  # clients can name groups without end
        case TellNow(event):
            journal.tell(event, group_id)


async def forget_events(group_id: str, journal: Journal, state_log: StateLog) -> None:
    """End the sequence of a deleted group, whose lines are all written. Raises StateLogError."""
    if journal.has_told(group_id):
        await state_log.append(group_id, (FORGOTTEN,))
        journal.forget(group_id)
