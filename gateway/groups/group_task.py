"""One task owns one group: it alone touches the group's engine (design, section 2).

A request is decided, its records are made durable, then applied, then the answer leaves. If the
records cannot be written, nothing has happened, and the client is told to try again.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
import trio

from coordinator.config import GroupConfig
from coordinator.engine import GroupEngine, Step
from coordinator.errors import ErrorCode, GroupError, InvariantError
from coordinator.events import Event, OffsetCommitEnded, Request, TimePassed
from coordinator.replies import GroupView, Reply
from coordinator.topic_names import topics_of_group, topics_of_request
from coordinator.topics import Topics
from gateway.cluster.errors import UpstreamError
from gateway.groups.clock import Clock
from gateway.groups.topics_image import TopicsImage
from gateway.state_log.log import StateLog, StateLogError
from gateway.story import Listener, tell, write_to_log

log = structlog.get_logger()

INBOX_MAX = 64
"""Requests that may wait for one group's task; more wait in their connections."""

LOAD_RETRY_S = 1.0

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

    def answer(self, reply: Reply) -> None:
        self.reply = reply
        self.answered.set()


class GroupEnded(Exception):  # noqa: N818  (not an error: the group was empty)
    """The group's task has ended; the next request starts another."""


class GroupTask:
    """`run` owns the engine; everybody else asks. Ends when the group is empty, nothing parked."""

    def __init__(
        self,
        group_id: str,
        *,
        config: GroupConfig,
        topics: TopicsImage,
        state_log: StateLog,
        clock: Clock,
        listener: Listener | None,
    ) -> None:
        self.group_id = group_id
        self._config = config
        self._topics = topics
        self._state_log = state_log
        self._clock = clock
        self._listener = listener
        self._engine = GroupEngine(group_id, config)
        self._waiting: dict[int, _Ask] = {}
        self._send, self._receive = trio.open_memory_channel[_Ask | OffsetCommitEnded](INBOX_MAX)

    async def ask(self, make: MakeRequest, topic_names: Iterable[str] = ()) -> tuple[int, Reply]:
        """The token of the request and its answer, which may take as long as a rebalance.

        `topic_names` are those that `make` looks up. Raises GroupEnded.
        """
        ask = _Ask(make=make, topic_names=frozenset(topic_names))
        await self._put(ask)
        await ask.answered.wait()
        assert ask.reply is not None
        return ask.token, ask.reply

    async def tell(self, event: OffsetCommitEnded) -> None:
        """Let the group know of something that has no answer. Raises GroupEnded."""
        await self._put(event)

    def describe(self) -> tuple[GroupView, Topics]:
        """The group as admin tools see it, and the topics that it names."""
        return self._engine.describe(self._topics.latest), self._topics.latest

    @property
    def is_live(self) -> bool:
        """Whether the group has members."""
        group = self._engine.state.group
        return group is not None and bool(group.members)

    def release_waiting(self) -> None:
        """Send those away that wait for a rebalance: the gateway is about to end."""
        for ask in list(self._waiting.values()):
            self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the gateway is ending")

    async def run(self, ended: Callable[[], None]) -> None:
        """Serve until the group is quiet. `ended` is called before a request could be missed."""
        structlog.contextvars.clear_contextvars()  # the connection that came first is not the group
        with self._send, self._receive:
            try:
                await self._load()
                while True:
                    await self._serve_one()
                    if self._engine.state.is_quiet and not self._has_mail():
                        break
            finally:
                ended()

    async def _put(self, item: _Ask | OffsetCommitEnded) -> None:
        try:
            await self._send.send(item)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise GroupEnded(self.group_id) from None

    def _has_mail(self) -> bool:
        inbox = self._receive.statistics()
        return bool(inbox.current_buffer_used or inbox.tasks_waiting_send)

    async def _load(self) -> None:
        """Take the group up from its log; requests wait meanwhile."""
        engine = GroupEngine(self.group_id, self._config)
        engine.load(await self._state_log.read(self.group_id), now_ms=self._clock.now_ms())
        names = topics_of_group(engine.state)
        while True:
            try:
                await self._topics.get(names)
                break
            except UpstreamError as error:
                log.warning(
                    "group_load_delayed",
                    group_id=self.group_id,
                    reason=str(error),
                    next_retry_s=LOAD_RETRY_S,
                )
                await trio.sleep(LOAD_RETRY_S)
        self._engine = engine

    async def _serve_one(self) -> None:
        item: _Ask | OffsetCommitEnded | None = None
        with trio.move_on_after(self._clock.seconds_until(self._engine.next_deadline_ms())):
            item = await self._receive.receive()
        if isinstance(item, _Ask):
            await self._serve_ask(item)
        else:
            await self._handle(item or TimePassed(), await self._topics.get(()))

    async def _serve_ask(self, ask: _Ask) -> None:
        self._waiting[ask.token] = ask
        try:
            ask.event = ask.make(ask.token, await self._topics.get(ask.topic_names))
            topics = await self._topics.get(topics_of_request(ask.event))
        except UpstreamError as error:
            if ask.event is None:
                ask.event = ask.make(ask.token, self._topics.latest)
            self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topics unknown: {error}")
            return
        await self._handle(ask.event, topics)

    async def _handle(self, event: Event, topics: Topics) -> None:
        try:
            step = self._engine.handle(event, now_ms=self._clock.now_ms(), topics=topics)
            await self._state_log.append(self.group_id, step.durable)
        except StateLogError as error:
            log.error("state_log_failed", group_id=self.group_id, reason=str(error))  # noqa: TRY400
            self._refuse_event(event, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state log failed")
        except InvariantError:
            log.exception("engine_rule_broken", group_id=self.group_id, engine_event=event)
            for ask in list(self._waiting.values()):
                self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is loaded again")
            await self._load()
        else:
            self._carry_out(step, topics)

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
                self._note_refusal(reply)
                ask.answer(reply)

    def _note_refusal(self, reply: Reply) -> None:
        if reply.why:
            log.info(
                "request_refused",
                group_id=self.group_id,
                error_code=reply.error.name,
                reason=reply.why,
            )

    def _refuse_event(self, event: Event, code: ErrorCode, why: str) -> None:
        if not isinstance(event, OffsetCommitEnded | TimePassed):
            self._refuse(self._waiting[event.token], code, why)

    def _refuse(self, ask: _Ask, code: ErrorCode, why: str) -> None:
        del self._waiting[ask.token]
        assert ask.event is not None
        reply = ask.event.refused(GroupError(code, why))
        self._note_refusal(reply)
        ask.answer(reply)
