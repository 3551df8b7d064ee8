"""One task owns one group: it alone touches the group's engine.

A request is decided, its records are made durable, then applied, then the answer leaves. If the
records cannot be written, nothing has happened, and the client is told to try again. It must not
know Kafka's messages, or on which connection somebody waits.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
import trio

from coordinator.config import GroupConfig
from coordinator.consumer.group import ConsumerGroup
from coordinator.engine import GroupEngine, Step
from coordinator.errors import ErrorCode, GroupError
from coordinator.events import (
    Event,
    Happening,
    OffsetCommitEnded,
    OffsetCommitReceived,
    RegexesResolved,
    Request,
    TimePassed,
)
from coordinator.replies import ConfigView, GroupView, Reply
from coordinator.topic_names import topics_of_group, topics_of_request
from coordinator.topics import Topics
from coordinator.volatile import CommitStarted, DeadlineKind, DeadlineSet, RegexResolution
from gateway.cluster.errors import UpstreamError
from gateway.groups.clock import Clock
from gateway.groups.regex_resolver import RegexResolver
from gateway.groups.topics_image import TopicsImage
from gateway.state_log.log import StateLog, StateLogError
from gateway.story import Listener, tell, write_to_log

log = structlog.get_logger()

INBOX_MAX = 64
"""Requests that may wait for one group's task; more wait in their connections."""

LOAD_RETRY_S = 1.0
POSTPONED_MS = 1_000
"""How much later what cannot be refused is handled again, when the log or we ourselves failed."""

MakeRequest = Callable[[int, Topics], Request]
"""Makes the engine's event from its token and the topics' image."""

_tokens = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class _Ask:
    """A request and the place for its answer."""

    make: MakeRequest
    topic_names: frozenset[str]
    token: int = field(default_factory=lambda: next(_tokens))
    event: Request | None = None
    reply: Reply | None = None
    answered: trio.Event = field(default_factory=trio.Event)
    is_abandoned: bool = False
    """Whoever asked has gone and will not see the answer."""

    def answer(self, reply: Reply | None) -> None:
        self.reply = reply
        self.answered.set()


class GroupEnded(Exception):  # noqa: N818  (not an error: the group was empty)
    """The group's task has ended; the next request starts another."""


class GroupFailed(Exception):  # noqa: N818  (what happened, and it is logged where it happened)
    """A bug of ours: this request could not even be refused."""


class GroupTask:
    """`run` owns the engine; everybody else asks. Ends when the group is empty, nothing parked."""

    def __init__(
        self,
        group_id: str,
        *,
        config: GroupConfig,
        topics: TopicsImage,
        resolver: RegexResolver,
        state_log: StateLog,
        clock: Clock,
        listener: Listener | None,
    ) -> None:
        self.group_id = group_id
        self._config = config
        self._topics = topics
        self._resolver = resolver
        self._state_log = state_log
        self._clock = clock
        self._listener = listener
        self._engine = GroupEngine(group_id, config)
        self._waiting: dict[int, _Ask] = {}
        self._send, self._receive = trio.open_memory_channel[_Ask](INBOX_MAX)
        # At most one per commit that was accepted, so the clients' connections are its limit; and
        # one for regular expressions.
        self._happened: deque[OffsetCommitEnded | RegexesResolved] = deque()
        self._nursery: trio.Nursery | None = None
        self._resolving = trio.CancelScope()
        self._idle = trio.CancelScope()
        self._not_before_ms = 0
        self._asked_since_due = 0
        self._is_ending = False
        self.is_loaded = False
        """Whether the group is known; until then nothing can be said of it."""

    async def ask(self, make: MakeRequest, topic_names: Iterable[str] = ()) -> tuple[int, Reply]:
        """The token of the request and its answer, which may take as long as a rebalance.

        `topic_names` are those that `make` looks up. Cancelled, the request is decided all the
        same, and a commit that is then accepted counts as ended. Raises GroupEnded, GroupFailed.
        """
        ask = _Ask(make=make, topic_names=frozenset(topic_names))
        try:
            await self._send.send(ask)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise GroupEnded(self.group_id) from None
        try:
            await ask.answered.wait()
        except trio.Cancelled:
            ask.is_abandoned = True
            self._end_if_abandoned(ask)
            raise
        if ask.reply is None:
            raise GroupFailed(self.group_id)
        return ask.token, ask.reply

    def end_commit(self, event: OffsetCommitEnded) -> None:
        """Let the group know how a commit ended. Never blocks, so that no commit stays open."""
        self._note(event)

    def describe(self) -> tuple[GroupView, Topics]:
        """The group as admin tools see it, and the topics that it names."""
        return self._engine.describe(self._topics.latest), self._topics.latest

    def describe_configs(self) -> tuple[ConfigView, ...]:
        """The group's configs as admin tools see them."""
        return self._engine.describe_configs()

    @property
    def is_live(self) -> bool:
        """Whether the group has members."""
        group = self._engine.state.group
        return group is not None and bool(group.members)

    def release_waiting(self) -> None:
        """From now on nobody waits for a rebalance here: the gateway is about to end."""
        self._is_ending = True
        self._idle.cancel()

    async def run(self, ended: Callable[[], None]) -> None:
        """Serve until the group is quiet. `ended` is called before a request could be missed."""
        structlog.contextvars.clear_contextvars()  # the connection that came first is not the group
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            with self._send, self._receive:
                try:
                    await self._load()
                    while self._has_mail() or not self._engine.state.is_quiet:
                        await self._serve_one()
                finally:
                    ended()
            nursery.cancel_scope.cancel()

    def _note(self, event: OffsetCommitEnded | RegexesResolved) -> None:
        self._happened.append(event)
        self._idle.cancel()

    def _has_mail(self) -> bool:
        inbox = self._receive.statistics()
        return bool(inbox.current_buffer_used or inbox.tasks_waiting_send)

    async def _load(self) -> None:
        """Take the group up from its log; requests wait meanwhile. The group that is in the log
        waits for no regular expression."""
        self._resolving.cancel()
        while True:
            try:
                engine = GroupEngine(self.group_id, self._config)
                engine.load(await self._state_log.read(self.group_id), now_ms=self._clock.now_ms())
                await self._topics.get(topics_of_group(engine.state))
                break
            except (StateLogError, UpstreamError) as error:
                log.warning(
                    "group_load_delayed",
                    group_id=self.group_id,
                    reason=str(error),
                    next_retry_s=LOAD_RETRY_S,
                )
            except Exception:  # the boundary: one group that cannot be loaded, not the gateway
                log.exception("group_load_failed", group_id=self.group_id)
            await trio.sleep(LOAD_RETRY_S)
        _keep_commits(self._engine, engine)
        self._engine = engine
        self.is_loaded = True

    async def _serve_one(self) -> None:
        item = await self._next()
        try:
            if isinstance(item, _Ask):
                await self._serve_ask(item)
            else:
                await self._serve_happening(item)
        except Exception:  # the boundary: a bug, InvariantError included, ends no other group
            # The event's name only: the event itself may hold a client's data.
            event = item.event if isinstance(item, _Ask) else item
            log.exception("group_failed", group_id=self.group_id, event_type=type(event).__name__)
            if not isinstance(item, _Ask):
                self._postpone(item)
            elif item.event is None:
                item.answer(None)
            elif not item.answered.is_set():
                self._waiting[item.token] = item
            self._refuse_waiting("the group is loaded again")
            await self._load()

    async def _next(self) -> _Ask | Happening:
        """What to serve now: what happened comes first, then who asks.

        Who asks already comes before a deadline that is due: if we were late ourselves, a member
        that spoke in time must not be timed out. A full inbox of them at the most: time passes.
        """
        while True:
            if self._is_ending:
                self._refuse_waiting("the gateway is ending")
            due_ms = self._due_ms()
            if due_ms is not None and due_ms <= self._clock.now_ms():
                if self._happened:
                    return self._happened.popleft()
                if self._asked_since_due < INBOX_MAX and self._has_mail():
                    self._asked_since_due += 1
                    return self._receive.receive_nowait()
                self._asked_since_due = 0
                return TimePassed()
            with trio.move_on_after(self._clock.seconds_until(due_ms)) as self._idle:
                return await self._receive.receive()

    def _due_ms(self) -> int | None:
        """When something is to be handled that nobody asks for."""
        at_ms = 0 if self._happened else self._engine.next_deadline_ms()
        return None if at_ms is None else max(at_ms, self._not_before_ms)

    async def _serve_ask(self, ask: _Ask) -> None:
        if self._topics.is_crowded:
            self._topics.keep_only(topics_of_group(self._engine.state))
        try:
            ask.event = ask.make(ask.token, await self._topics.get(ask.topic_names))
            topics = await self._topics.get(topics_of_request(ask.event))
        except UpstreamError as error:
            ask.event = ask.event or ask.make(ask.token, self._topics.latest)
            self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topics unknown: {error}")
            return
        self._waiting[ask.token] = ask
        await self._handle(ask.event, topics)

    async def _serve_happening(self, event: Happening) -> None:
        try:
            topics = await self._topics.get(topics_of_request(event))
        except UpstreamError as error:  # only what regular expressions matched can be new
            log.warning("regexes_unresolved", group_id=self.group_id, reason=str(error))
            event, topics = RegexesResolved(topics=None), self._topics.latest
        await self._handle(event, topics)

    async def _handle(self, event: Event, topics: Topics) -> None:
        step = self._engine.handle(event, now_ms=self._clock.now_ms(), topics=topics)
        try:
            await self._state_log.append(self.group_id, step.durable)
        except StateLogError as error:
            log.error("state_log_failed", group_id=self.group_id, reason=str(error))  # noqa: TRY400
            if isinstance(event, Happening):
                self._postpone(event)
            else:
                ask = self._waiting.pop(event.token)
                self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state log failed")
        else:
            self._carry_out(step, topics)

    def _postpone(self, event: Happening) -> None:
        """It has happened all the same, and nobody is there to ask again."""
        if not isinstance(event, TimePassed):
            self._happened.appendleft(event)
        self._not_before_ms = self._clock.now_ms() + POSTPONED_MS

    def _carry_out(self, step: Step, topics: Topics) -> None:
        """The records are durable: from here on nothing may fail."""
        events = tell(self._engine.state, step.records, topics)
        for record in step.records:
            self._engine.apply(record)
        write_to_log(self.group_id, events)
        if self._listener is not None:
            for event in events:
                self._listener(event)
        for token, reply in step.replies:
            if (ask := self._waiting.pop(token, None)) is not None:
                self._answer(ask, reply)
        if step.resolution is not None:
            assert self._nursery is not None
            self._nursery.start_soon(self._resolve, step.resolution)
        group = self._engine.state.group
        if isinstance(group, ConsumerGroup) and group.regex_subscribers:
            self._topics.follow_names()

    async def _resolve(self, resolution: RegexResolution) -> None:
        """Beside the group, which goes on meanwhile."""
        with trio.CancelScope() as self._resolving:
            try:
                event = await self._resolver.resolve(self.group_id, resolution.regexes)
            except Exception:  # the boundary: a bug in matching ends no group
                log.exception("regexes_unresolved", group_id=self.group_id)
                event = RegexesResolved(topics=None)
            self._note(event)

    def _answer(self, ask: _Ask, reply: Reply) -> None:
        if reply.why:
            log.info(
                "request_refused",
                group_id=self.group_id,
                event_type=type(ask.event).__name__,
                error_code=reply.error.name,
                reason=reply.why,
            )
        ask.answer(reply)
        self._end_if_abandoned(ask)

    def _end_if_abandoned(self, ask: _Ask) -> None:
        """A commit that was decided and that nobody is left to send; of the two, the verdict and
        the end of who asked, either may come first."""
        is_decided_commit = isinstance(ask.event, OffsetCommitReceived) and ask.answered.is_set()
        if is_decided_commit and ask.is_abandoned:
            self.end_commit(OffsetCommitEnded(commit=ask.token))

    def _refuse(self, ask: _Ask, code: ErrorCode, why: str) -> None:
        assert ask.event is not None
        self._answer(ask, ask.event.refused(GroupError(code, why)))

    def _refuse_waiting(self, why: str) -> None:
        while self._waiting:
            _token, ask = self._waiting.popitem()
            self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)


def _keep_commits(old: GroupEngine, new: GroupEngine) -> None:
    """Commits on their way are in no log, but the cluster may still store them."""
    for commit, in_flight in old.state.commits.items():
        new.apply(CommitStarted(commit, in_flight))
    for key, at_ms in old.state.deadlines.items():
        if key.kind is DeadlineKind.LOST_COMMIT:
            new.apply(DeadlineSet(key, at_ms))
