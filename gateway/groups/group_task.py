"""One task owns one group, and is the only code that touches the group's engine.

A request is decided, its records become durable and are applied, and then the answer leaves. If the
records cannot be written, the request has no effect and the client is told to retry.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial

import structlog
import trio

from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.topic_names import topics_of_group, topics_of_request
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError, LongComputation
from coordinator.interface.events import (
    Event,
    GroupLost,
    Happening,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitEnded,
    OffsetCommitReceived,
    RegexesResolved,
)
from coordinator.interface.replies import (
    ConfigView,
    ConsumerHeartbeatReply,
    GroupView,
    HeartbeatReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import RegexResolution
from gateway.cluster.errors import UpstreamError
from gateway.events.envelope import Envelope
from gateway.events.group_events import TopicsGone
from gateway.events.journal import Journal, Told, last_events
from gateway.groups.aside import Aside
from gateway.groups.batch import Batch, Decision
from gateway.groups.clock import Clock
from gateway.groups.inbox import Ask, Inbox, MakeRequest
from gateway.groups.log_health import LogHealth
from gateway.groups.offset_reporter import OffsetReporter
from gateway.groups.process_pauses import ProcessPauses
from gateway.groups.regex_resolver import RegexResolver
from gateway.groups.topics_image import TopicsImage
from gateway.state_log.last_events import FORGOTTEN
from gateway.state_log.log import StateLog, StateLogError, StateLogRefused, StateLogUnsure
from kafka_codecs.error_codes import ErrorCode

log = structlog.get_logger()

LOAD_RETRY_S, LOAD_RETRY_MAX_S = 1.0, 8.0
"""How long until a failed load is retried; doubles with each failure."""
POSTPONED_MS = 1_000
"""The delay before an event that cannot be refused is handled again after a failure."""
STALLED_AFTER_S = 30.0
"""How long members may stay silent after joining before another group may take the place."""

SERVED = (SyncGroupReply, HeartbeatReply, ConsumerHeartbeatReply)
"""Replies that show a member went on after joining."""


class GroupEnded(Exception):
    """The group's task has ended; the next request starts another."""


class GroupFailed(Exception):
    """A bug in the gateway: the request could not even be refused."""


async def forget_events(group_id: str, journal: Journal, state_log: StateLog) -> None:
    """End the sequence of a deleted group, whose lines are all written. Raises StateLogError."""
    if journal.has_told(group_id):
        await state_log.append(group_id, (FORGOTTEN,))
        journal.forget(group_id)


class GroupTask:
    """`run` owns the engine, all other methods are for callers. The task ends once the group is
    empty and no request is parked."""

    def __init__(
        self,
        group_id: str,
        *,
        config: GroupConfig,
        topics: TopicsImage,
        resolver: RegexResolver,
        state_log: StateLog,
        clock: Clock,
        pauses: ProcessPauses,
        journal: Journal,
        offsets: OffsetReporter,
        aside: Aside,
        log_health: LogHealth,
    ) -> None:
        """`aside`: runs long decisions in a thread."""
        self.group_id = group_id
        self._config = config
        self._topics = topics
        self._resolver = resolver
        self._state_log = state_log
        self._clock = clock
        self._journal = journal
        self._offsets = offsets
        self._aside = aside
        self._log_health = log_health
        self._engine = GroupEngine(group_id, config)
        self._waiting: dict[int, Ask] = {}
        self._inbox = Inbox(clock, pauses)
        self._nursery: trio.Nursery | None = None
        self._resolving = trio.CancelScope()
        self._is_ending = False
        self._has_served = False
        self._answered_s = trio.current_time()
        self.is_loaded = False
        """Whether the group has been loaded. Until then its state is unknown."""

    async def refusal(self, make: MakeRequest) -> Reply | None:
        """The engine's refusal of a request right now, None if it would be accepted. Changes
        nothing. Raises GroupEnded."""
        ask = Ask(make=make, topic_names=frozenset(), is_trial=True)
        await self._put(ask)
        await ask.answered.wait()
        return ask.reply

    async def dissolve(self) -> None:
        """Remove all members of a classic group, as if each had left. Raises GroupEnded,
        GroupFailed."""
        group = self._engine.state.group
        if isinstance(group, ClassicGroup):
            leavers = [
                *(
                    Leaver(member_id=each, instance_id=member.instance_id)
                    for each, member in group.members.items()
                ),
                *(Leaver(member_id=each) for each in group.pending_ids),
            ]
            await self.ask(lambda token, _: LeaveGroupReceived(token=token, members=tuple(leavers)))

    async def ask(self, make: MakeRequest, topic_names: Iterable[str] = ()) -> tuple[int, Reply]:
        """The request's token and its answer, which may take as long as a rebalance.

        `topic_names` are the topics that `make` looks up. A cancelled request is still decided, and
        if it is an accepted commit, the commit counts as ended. Raises GroupEnded, GroupFailed.
        """
        ask = Ask(make=make, topic_names=frozenset(topic_names))
        await self._put(ask)
        try:
            await ask.answered.wait()
        except trio.Cancelled:
            ask.is_abandoned = True
            self._end_if_abandoned(ask)
            raise
        if ask.reply is None:
            raise GroupFailed(self.group_id)
        return ask.token, ask.reply

    async def _put(self, ask: Ask) -> None:
        try:
            await self._inbox.put(ask)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise GroupEnded(self.group_id) from None

    def end_commit(self, event: OffsetCommitEnded) -> None:
        """Tell the group that a commit has ended. Never blocks, so that no commit stays open."""
        self._inbox.note(event)

    def give_way(self) -> None:
        """Tell the group that another holder has it in the cluster. The engine fences its
        members."""
        self._inbox.note(GroupLost())

    def describe(self) -> tuple[GroupView, Topics]:
        """The group as admin tools see it, and its topics."""
        return self._engine.describe(self._topics.latest), self._topics.latest

    def summarize(self) -> GroupView:
        """The group without its members, for lists of groups."""
        return self._engine.summarize()

    def describe_configs(self) -> tuple[ConfigView, ...]:
        """The group's configs as admin tools see them."""
        return self._engine.describe_configs()

    @property
    def topic_names(self) -> Set[str]:
        """The topics that the group has recently referred to."""
        return self._topics.names

    @property
    def has_group(self) -> bool:
        """Whether the group exists, even if empty."""
        return self._engine.state.group is not None

    @property
    def is_live(self) -> bool:
        """Whether the group has members."""
        group = self._engine.state.group
        return group is not None and bool(group.members)

    @property
    def has_stalled(self) -> bool:
        """Whether no member got past joining, and none was answered within STALLED_AFTER_S."""
        return (
            self.is_loaded
            and not self._has_served
            and not self._waiting
            and trio.current_time() - self._answered_s >= STALLED_AFTER_S
        )

    def release_waiting(self) -> None:
        """Park no request from now on and refuse the parked ones: the gateway is shutting down."""
        self._is_ending = True
        self._inbox.wake()

    async def run(self, ended: Callable[[], None]) -> None:
        """Serve until the group is quiet. `ended` is called before a request could be missed."""
        structlog.contextvars.clear_contextvars()  # inherited from the first client's connection
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            with self._inbox:
                try:
                    await self._load()
                    while self._has_work or await self._forget_events():
                        await self._serve()
                finally:
                    ended()
            nursery.cancel_scope.cancel()

    @property
    def _has_work(self) -> bool:
        return self._inbox.has_asks or not self._engine.state.is_quiet

    async def _forget_events(self) -> bool:
        """Delete the last events of a deleted group, whose lines are written. If the log fails,
        `Forgetting` does it later. Returns whether there is work again."""
        state = self._engine.state
        if state.group is None and not state.config_overrides:
            with contextlib.suppress(StateLogError):
                await forget_events(self.group_id, self._journal, self._state_log)
        return self._has_work

    async def _load(self) -> None:
        """Load the group from its log, retrying until that succeeds. Requests that arrive between
        the attempts are refused. A running regex resolution belongs to the old state and ends."""
        self._resolving.cancel()
        retry_s, told = LOAD_RETRY_S, ""
        while True:
            try:
                engine = await self._read()
                break
            except (StateLogError, UpstreamError) as error:
                why = str(error)
            except Exception as error:  # the boundary: one group that cannot be loaded
                why = repr(error)
            if why != told:
                told = why
                log.error(
                    "group_load_failed",
                    group_id=self.group_id,
                    reason=" ".join(why.split()),
                    next_retry_s=retry_s,
                )
            with trio.move_on_after(retry_s):
                while True:
                    self._refuse_unloaded(await self._inbox.ask())
            retry_s = min(2 * retry_s, LOAD_RETRY_MAX_S)
        engine.keep_commits(self._engine)
        self._engine = engine
        self._has_served |= self.is_live
        self.is_loaded = True

    async def _read(self) -> GroupEngine:
        """The group's engine as the log has it, with its topics known. Raises StateLogError,
        UpstreamError."""
        engine = GroupEngine(self.group_id, self._config)
        engine.load(await self._state_log.read(self.group_id), now_ms=self._clock.now_ms())
        self._journal.take_up(self.group_id, await self._state_log.last_events(self.group_id))
        await self._topics.get(topics_of_group(engine.state))
        return engine

    async def _serve(self) -> None:
        """Handle the next item. If it has records to write, waiting requests join its batch."""
        if self._is_ending:
            self._refuse_waiting("the gateway is shutting down")
        item = await self._inbox.next(self._engine.next_deadline_ms())
        batch, is_sound = Batch(self._engine), True
        while item is not None and is_sound:
            is_sound = await self._decide(item, batch)
            item = self._inbox.next_ask() if is_sound and batch.has_room else None
        is_sound = await self._write_and_apply(batch) and is_sound
        if not is_sound:
            self._refuse_waiting("the group is being reloaded")
            await self._load()

    async def _decide(self, item: Ask | Happening, batch: Batch) -> bool:
        """Add a decision to the batch. Returns False after a bug; other groups are unaffected."""
        try:
            if isinstance(item, Ask):
                await self._decide_ask(item, batch)
            else:
                await self._decide_happening(item, batch)
        except Exception:  # the boundary of the group: InvariantError included
            self._log_bug(item.event if isinstance(item, Ask) else item)
            if not isinstance(item, Ask):
                self._inbox.postpone(item, POSTPONED_MS)
            elif item.event is None:
                item.answer(None)
            elif not item.answered.is_set():
                self._waiting[item.token] = item
            return False
        return True

    async def _decide_ask(self, ask: Ask, batch: Batch) -> None:
        if self._topics.is_crowded:
            self._topics.keep_only(topics_of_group(self._engine.state))
        try:
            ask.event = ask.make(ask.token, await self._topics.get(ask.topic_names))
            topics = await self._topics.get(topics_of_request(ask.event))
        except UpstreamError as error:
            ask.event = ask.event or ask.make(ask.token, self._topics.latest)
            log.warning("topics_unknown", group_id=self.group_id, reason=str(error))
            self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, "its topics are unknown")
            return
        if ask.is_trial:
            refused = batch.refusal(ask.event, now_ms=self._clock.now_ms(), topics=topics)
            if refused is None:
                ask.answer(None)
            else:
                self._answer(ask, refused)
            return
        await self._decide_on(ask.event, topics, batch)
        self._waiting[ask.token] = ask

    async def _decide_happening(self, event: Happening, batch: Batch) -> None:
        try:
            topics = await self._topics.get(topics_of_request(event))
        except UpstreamError as error:  # only topics matched by a regex can be unknown here
            log.warning("regexes_unresolved", group_id=self.group_id, reason=str(error))
            event, topics = RegexesResolved(topics=None), self._topics.latest
        await self._decide_on(event, topics, batch)

    async def _decide_on(self, event: Event, topics: Topics, batch: Batch) -> None:
        """Decide an event. A long computation holds up this group only."""
        if gone := self._topics.take_gone():
            self._journal.tell(TopicsGone(topics=gone), self.group_id)
        decide = partial(batch.decide, event, now_ms=self._clock.now_ms(), topics=topics)
        try:
            decide(may_take_long=False)
        except LongComputation:
            await self._aside.run(decide)

    async def _write_and_apply(self, batch: Batch) -> bool:
        """Write the batch, then carry out its decisions. Returns False if the group must be loaded
        again: after a bug, or if it is unknown whether the log has the batch."""
        batch.close()
        try:
            stamped = await self._write(batch)
        except StateLogError as error:
            if not isinstance(error, StateLogRefused):
                self._log_health.note(error)
            elif len(batch.decisions) > 1:
                return await self._write_one_by_one(batch)
            log.error("state_log_failed", group_id=self.group_id, reason=str(error))  # noqa: TRY400
            self._undo(batch)
            return not isinstance(error, StateLogUnsure)
        for decision, events in zip(batch.decisions, stamped, strict=True):
            try:
                self._carry_out(decision, events)
            except Exception:  # the boundary, as above
                self._log_bug(decision.event)
                if isinstance(decision.event, Happening):
                    self._inbox.postpone(decision.event, POSTPONED_MS)
                return False
        return True

    async def _write_one_by_one(self, batch: Batch) -> bool:
        """Decide the batch again, one event at a time: a record that cannot be written then fails
        only its own request."""
        for event in [decision.event for decision in batch.decisions]:
            item = event if isinstance(event, Happening) else self._waiting.pop(event.token)
            alone = Batch(self._engine)
            if not (await self._decide(item, alone) and await self._write_and_apply(alone)):
                return False
        return True

    async def _write(self, batch: Batch) -> Sequence[Sequence[Envelope]]:
        """Write the batch. Returns the events of each decision, stamped. Raises StateLogError."""
        for each in batch.decisions:
            before = self._offsets.make_way(self.group_id, each.told.events)
            self._journal.pass_on(self._journal.stamp(Told(before, each.told.at_ms), self.group_id))
        if not batch.durable:
            return [self._journal.stamp(each.told, self.group_id) for each in batch.decisions]
        stamped = self._journal.stamp_batch([each.told for each in batch.decisions], self.group_id)
        last = last_events(stamped)
        records = batch.durable if last is None else (*batch.durable, last)
        await self._state_log.append(self.group_id, records)
        self._log_health.note(None)
        return stamped

    def _undo(self, batch: Batch) -> None:
        """Refuse the requests of a batch that was not written, and postpone its other events."""
        for decision in batch.decisions:
            if isinstance(decision.event, Happening):
                self._inbox.postpone(decision.event, POSTPONED_MS)
            else:
                ask = self._waiting.pop(decision.event.token)
                self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state log failed")

    def _log_bug(self, event: Event | None) -> None:
        # The event's name only: the event itself may hold a client's data.
        log.exception("group_failed", group_id=self.group_id, event_type=type(event).__name__)

    def _carry_out(self, decision: Decision, events: Sequence[Envelope]) -> None:
        """Apply durable records and answer. Nothing may fail from here on."""
        step = decision.step
        if events:
            self._journal.pass_on(events)
        for record in step.records:
            self._engine.apply(record)
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
        """Match the group's regular expressions while the group goes on."""
        with trio.CancelScope() as self._resolving:
            try:
                event = await self._resolver.resolve(self.group_id, resolution.regexes)
            except Exception:  # the boundary: a bug in matching ends no group
                log.exception("regexes_unresolved", group_id=self.group_id)
                event = RegexesResolved(topics=None)
            self._inbox.note(event)

    def _answer(self, ask: Ask, reply: Reply) -> None:
        self._answered_s = trio.current_time()
        self._has_served |= isinstance(reply, SERVED) and not reply.error
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

    def _end_if_abandoned(self, ask: Ask) -> None:
        """End an accepted commit whose sender is gone. The verdict and the sender's end may come in
        either order."""
        is_decided_commit = isinstance(ask.event, OffsetCommitReceived) and ask.answered.is_set()
        if is_decided_commit and ask.is_abandoned:
            self.end_commit(OffsetCommitEnded(commit=ask.token))

    def _refuse(self, ask: Ask, code: ErrorCode, why: str) -> None:
        assert ask.event is not None
        self._answer(ask, ask.event.refused(GroupError(code, why)))

    def _refuse_unloaded(self, ask: Ask) -> None:
        """Answer as a coordinator does while it loads the group."""
        try:
            ask.event = ask.make(ask.token, self._topics.latest)
        except Exception:  # the boundary of the group: without an event there is no refusal
            self._log_bug(None)
            ask.answer(None)
            return
        why = "the group cannot be loaded yet"
        self._refuse(ask, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)

    def _refuse_waiting(self, why: str) -> None:
        while self._waiting:
            _token, ask = self._waiting.popitem()
            self._refuse(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
