"""One group's engine and its log: what is decided, in which order, and when it takes effect.

A request is decided, its records become durable and are applied, and then the answer leaves. If the
records cannot be written, the request has no effect and the client is told to retry.
"""

from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from typing import Protocol

from coordinator.engine import GroupEngine, step_of
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.handlers.steady import SteadyStep
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import LongComputation
from coordinator.interface.events import (
    AdoptionEnded,
    AdoptionMoved,
    ConsumerHeartbeatReceived,
    Event,
    GroupLost,
    Happening,
    OffsetCommitEnded,
    ReleaseBegan,
    ReleaseMoved,
    Request,
)
from coordinator.interface.events import TimePassed as DeadlinePassed
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import DeadlineSet, Token
from gateway.events.event import DecisionEvents
from gateway.events.group_snapshot import snapshot_group
from gateway.events.member_events import PartitionsStated
from gateway.hosting.answers import RefusalReason
from gateway.hosting.batch import Batch, Decision
from gateway.hosting.calls import Call, Commit, Refused, Unanswerable, refuse
from gateway.hosting.effects import (
    Assign,
    Compute,
    Effect,
    EmitNow,
    Forget,
    Load,
    LoadedGroup,
    Log,
    ReportEvents,
    Resolve,
    Write,
)
from gateway.hosting.holders import Grace
from gateway.hosting.inputs import Damage
from gateway.hosting.states import LOG, CommitPhase, LogPhase
from gateway.moves import check_move

LOAD_RETRY_MS, LOAD_RETRY_MS_MAX = 1_000, 8_000
"""How long until a failed load is retried; doubles with each failure."""
POSTPONED_MS = 1_000
"""The delay before an event that cannot be refused is handled again after a failure."""
STALLED_AFTER_MS = 30_000
"""How long members may stay silent after joining before another group may take the place."""
STATED_OF_GONE_MAX = 16
"""How many departed members' statements are kept, apart from one for each member of the group."""
BEFORE_A_DEADLINE_MAX = 64
"""Waiting requests that are decided before a due deadline."""

SERVED = (SyncGroupReply, HeartbeatReply, ConsumerHeartbeatReply)
"""Replies that show a member continued after joining."""

_READY = LogPhase.READY  # every request asks, and Python 3.11 takes long to find an Enum's member

Item = Call | Commit
"""What the engine answers."""
StepOfMove = AdoptionMoved | AdoptionEnded | ReleaseBegan | ReleaseMoved
"""Happenings that are not decided again after a failure: the adoption or the release decides what
follows."""
Decided = tuple[Item, Reply | Refused | Unanswerable] | tuple[StepOfMove, bool]
"""What became of a request, or whether the log has a step of a move."""


class Observer(Protocol):
    """Sees what becomes of the group: the simulator's checks."""

    def record_loaded(self) -> None:
        """The group was read from its log."""

    def record_applied(self, decision: Decision) -> None:
        """A decision has taken effect."""


class LoggedEngine:
    """The group puts requests and happenings in, and takes the outcomes out."""

    def __init__(self, group_id: str, config: GroupConfig, *, effects: list[Effect]) -> None:
        self.phase = LogPhase.UNLOADED
        self.core = GroupEngine(group_id, config)
        self.topics = Topics()
        self.outcomes: deque[Decided] = deque()
        """The group takes them out."""
        self.observer: Observer | None = None
        self.grace = Grace()
        self._group_id = group_id
        self._config = config
        self._effects = effects
        # Both are bounded by the clients' connections: each has one request, or some commits.
        self._queue: deque[Item] = deque()
        self._happened: deque[Happening] = deque()
        self._waiting: dict[Token, Item] = {}
        """Decided requests that the engine has not answered yet."""
        self._batch: Batch | None = None
        self._computing: Item | Happening | None = None
        self._one_by_one = 0
        self._is_broken = False
        self.is_ending = False
        """Whether the gateway is shutting down, so that nothing waits any more."""
        self._is_forgotten = False
        self._asked_since_due = 0
        self._not_before_ms = 0
        self._retry_at_ms = 0
        self._retry_ms = LOAD_RETRY_MS
        self._told = ""
        self._last_statements: dict[str, tuple[int, frozenset[Partition]]] = {}
        """The epoch and the partitions that each native member has stated last, as events report
        them."""
        self._has_served = False
        self._answered_ms = 0
        self._is_snapshot_due = True

    # -- looking ---------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether the group has members."""
        group = self.core.state.group
        return group is not None and bool(group.members)

    @property
    def members(self) -> Collection[str]:
        """The ids of the group's members."""
        group = self.core.state.group
        return () if group is None else group.members

    def member_of(self, instance_id: str) -> str | None:
        """The id of the static member with this instance id."""
        group = self.core.state.group
        return None if group is None else group.instances.get(instance_id)

    @property
    def is_loaded(self) -> bool:
        """Whether the group's state is known."""
        return self.phase not in (LogPhase.UNLOADED, LogPhase.LOADING, LogPhase.UNREADABLE)

    @property
    def is_loading(self) -> bool:
        """Whether the group's state is about to be known."""
        return self.phase in (LogPhase.LOADING, LogPhase.UNREADABLE)

    @property
    def has_regexes(self) -> bool:
        """Whether a member subscribes to a regular expression, so that new topics matter."""
        group = self.core.state.group
        return isinstance(group, ConsumerGroup) and bool(group.regex_subscribers)

    @property
    def is_deciding(self) -> bool:
        """Whether a decision is under way."""
        return self._batch is not None or self._computing is not None

    def has_stalled(self, now_ms: int) -> bool:
        """Whether no member got past joining, and none was answered within STALLED_AFTER_MS."""
        return (
            self.is_loaded
            and isinstance(self.core.state.group, ClassicGroup)
            and not (self._has_served or self._waiting)
            and now_ms - self._answered_ms >= STALLED_AFTER_MS
        )

    def refusal(self, item: Item, now_ms: int) -> Reply | None:
        """The engine's refusal of a request right now; None if it would be accepted, or if it
        changes the group."""
        if self.phase is LogPhase.COMPUTING:  # a thread uses the batch
            return None
        try:
            batch = self._batch or Batch(self.core)
            return batch.refusal(self._event_of(item), now_ms=now_ms, topics=self.topics)
        except Exception:  # the boundary of the group: the decision finds the same bug
            return None

    def next_ms(self) -> int | None:
        """When `work` has something to do again."""
        match self.phase:
            case LogPhase.UNREADABLE:
                return self._retry_at_ms
            case LogPhase.READY if self._happened:
                return self._not_before_ms
            case LogPhase.READY:
                at_ms = self.core.next_deadline_ms()
                if at_ms is None:
                    return None
                return max(at_ms, self.grace.over_ms, self._not_before_ms)
            case _:
                return None

    # -- what happens ----------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to read the log."""
        self._move(LogPhase.LOADING)
        self._effects.append(Load())

    def put(self, items: Sequence[Item]) -> None:
        """Add the requests of a call."""
        if self.phase is LogPhase.UNLOADED:
            self.load()
        self._queue += items
        if self.phase is LogPhase.UNREADABLE:
            self._refuse_queue()

    def observe(self, event: Happening) -> None:
        """Add a happening. A group that is not in memory has no open commits and no members."""
        if self.phase is not LogPhase.UNLOADED:
            self._happened.append(event)

    def end_commit(self, commit: Commit) -> None:
        """The cluster has stored a commit, or never will."""
        commit.move(CommitPhase.ENDED)
        self.observe(OffsetCommitEnded(commit=commit.token))

    def has_work(self, now_ms: int) -> bool:
        """Whether `work` or its caller has something to do now."""
        is_due = self._happened and now_ms >= self._not_before_ms
        return bool(self.outcomes or (self.phase is LogPhase.READY and (self._queue or is_due)))

    def start_again(self) -> None:
        """Forget the requests that were under way and load again, after a bug of the caller. What
        has happened is decided again, because it is not repeated. A commit that was not sent has
        ended, even if its client has gone."""
        if self._batch is not None:
            self._batch.close()
            events = [decision.event for decision in self._batch.decisions]
            self._happened.extendleft(reversed([e for e in events if isinstance(e, Happening)]))
        if isinstance(self._computing, Happening):
            self._happened.append(self._computing)
        happenings = [event for event in self._happened if not isinstance(event, StepOfMove)]
        self._happened = deque(happenings)
        self._batch = self._computing = None
        self._is_broken = False
        forgotten = *self._queue, *self._waiting.values(), *(item for item, _ in self.outcomes)
        self._queue.clear()
        self._waiting.clear()
        self.outcomes.clear()
        for item in forgotten:
            if isinstance(item, Commit) and item.phase is CommitPhase.RECEIVED:
                self.end_commit(item)
        if self.phase is not LogPhase.UNLOADED:
            self.phase = LogPhase.LOADING
            self._effects.append(Load())

    def end(self) -> None:
        """Park no request from now on: the gateway is shutting down."""
        self.is_ending = True

    def on_loaded(self, loaded: LoadedGroup, now_ms: int) -> None:
        """The log was read."""
        loaded.engine.keep_commits(self.core)
        self.core, self.topics = loaded.engine, loaded.topics
        self._has_served |= self.is_live
        self._answered_ms = now_ms
        self.grace.reconnect_by_ms = now_ms + self._config.reconnect_timeout_ms
        self._retry_ms, self._told = LOAD_RETRY_MS, ""
        self._is_snapshot_due = True
        self._move(LogPhase.READY)
        if self.observer is not None:
            self.observer.record_loaded()

    def report_snapshot(self, *, are_topics_known: bool = True) -> None:
        """Report the whole state of the loaded group, unless that was done since the load.
        `are_topics_known`: see `snapshot_group`."""
        if self._is_snapshot_due and self.is_loaded:
            snapshot = snapshot_group(
                self.core.state, self.topics, are_topics_known=are_topics_known
            )
            self._effects.append(EmitNow(snapshot))
            self._is_snapshot_due = False

    def renew_snapshot(self) -> None:
        """Have the next `report_snapshot` report the group again."""
        self._is_snapshot_due = True

    def load_failed(self, reason: str, now_ms: int) -> None:
        """The log could not be read: refuse what waits, as a coordinator does while it loads."""
        if reason != self._told:
            fields = {
                "reason": " ".join(reason.split()),
                "next_retry_s": self._retry_ms / 1000,
            }
            self._effects.append(Log("error", "group_load_failed", fields))
        self._told = reason
        self._retry_at_ms = now_ms + self._retry_ms
        self._retry_ms = min(2 * self._retry_ms, LOAD_RETRY_MS_MAX)
        self._move(LogPhase.UNREADABLE)
        self._refuse_queue()

    def on_written(self, now_ms: int) -> None:
        """The log has the batch, or there is nothing to write: apply the records, and answer."""
        batch, self._batch = self._batch, None
        assert batch is not None
        if self.phase is LogPhase.WRITING:
            self._move(LogPhase.READY)
        self._is_forgotten = False
        batch.close()
        for decision in batch.decisions:
            try:
                self._apply(decision, now_ms)
            except Exception as error:  # the boundary of the group
                self._log_bug(decision.event, error)
                if isinstance(decision.event, Happening):
                    self._postpone(decision.event, now_ms)
                self._is_broken = True
                break
            if isinstance(decision.event, StepOfMove):
                self.outcomes.append((decision.event, True))
        if self._is_broken:
            self._reload()

    def on_forgotten(self) -> None:
        """The events of the deleted group are forgotten, or a daily look will do it."""
        self._move(LogPhase.READY)
        self._is_forgotten = True

    def write_failed(self, damage: Damage, now_ms: int) -> None:
        """The log did not confirm the batch: nothing of it has happened."""
        self._move(LogPhase.READY)
        batch, self._batch = self._batch, None
        assert batch is not None
        batch.close()
        if damage is Damage.REFUSED and len(batch.decisions) > 1:
            # A record that cannot be written then fails only its own request.
            self._one_by_one = len(batch.decisions)
            for decision in reversed(batch.decisions):
                self._put_back(decision.event)
            return
        for decision in batch.decisions:
            if isinstance(decision.event, Happening):
                self._postpone(decision.event, now_ms)
            else:
                item = self._waiting.pop(decision.event.token)
                self._refuse(item, RefusalReason.LOG_FAILED, "the state log failed")
        if self._is_broken or damage is Damage.UNSURE:
            self._reload()

    def on_computed(self, error: Exception | None, now_ms: int) -> None:
        """The long computation has ended."""
        self._move(LogPhase.READY)
        item, self._computing = self._computing, None
        assert item is not None
        if error is not None:
            self._break(item, error, now_ms)

    # -- deciding --------------------------------------------------------------------------------

    def decide_at_rest(
        self, event: Event, now_ms: int, answers_within_ms: int = 0
    ) -> SteadyStep | None:
        """Decide and apply an event that meets the group at rest: there is nothing to write, to
        report or to grant. None if it needs more than that; then nothing has changed.
        `answers_within_ms`: how long the latest heartbeats took to be answered."""
        if self.phase is not _READY or self._queue or self._happened:
            return None
        core = self.core
        due_ms = core.next_deadline_ms()
        if due_ms is None or due_ms <= now_ms:
            return None
        # Events report a member's statement once. Some clients repeat it in each heartbeat.
        if (
            isinstance(event, ConsumerHeartbeatReceived)
            and event.owned is not None
            and self._last_statements.get(event.member_id) != (event.member_epoch, event.owned)
        ):
            return None
        try:
            decided = core.decide_at_rest(
                event, now_ms=now_ms, topics=self.topics, answers_within_ms=answers_within_ms
            )
        except Exception:  # the boundary of the group: the decision that follows finds the same bug
            return None
        if decided is None:
            return None
        records, reply = decided
        for record in records:
            if isinstance(record, DeadlineSet) and record.at_ms < due_ms:
                return None  # the driver would have to wake earlier
        for record in records:
            core.apply(record)
        if reply is not None:
            self._answered_ms = now_ms
            self._has_served |= isinstance(reply, SERVED) and not reply.error
        if self.observer is not None:
            self.observer.record_applied(
                Decision(event, step_of(event, decided), DecisionEvents([], now_ms))
            )
        return decided

    def _record_last_statement(self, decision: Decision) -> None:
        event = decision.event
        is_reported = isinstance(next(iter(decision.reported.events), None), PartitionsStated)
        if is_reported and isinstance(event, ConsumerHeartbeatReceived) and event.owned is not None:
            self._last_statements[event.member_id] = event.member_epoch, event.owned
            if len(self._last_statements) > 2 * len(self.members) + STATED_OF_GONE_MAX:
                self._last_statements = {
                    member_id: stated
                    for member_id, stated in self._last_statements.items()
                    if member_id in self.members
                }

    def work(self, now_ms: int) -> None:
        """Decide all that can be decided now. If a decision has records to write, waiting requests
        join its batch."""
        if self.phase is LogPhase.UNREADABLE and now_ms >= self._retry_at_ms:
            self.load()
        while self.phase is LogPhase.READY:
            if self._batch is None:
                if self.is_ending:
                    self._refuse_waiting(RefusalReason.ENDING)
                item = self._next(now_ms)
                if item is None:
                    return
                self._batch = Batch(self.core)
            elif (item := self._joining(self._batch)) is None:
                self._close(self._batch, now_ms)
                continue
            self._decide(item, self._batch, now_ms)

    def _next(self, now_ms: int) -> Item | Happening | None:
        """The next item: happenings first, then requests, then a due deadline.

        Waiting requests come before a due deadline: if the driver itself is late, a member that
        spoke in time must not be fenced. At most BEFORE_A_DEADLINE_MAX requests do so, since time
        must pass. Members that could not even send during a pause of the process have a grace.
        """
        if self._one_by_one and self._queue and not self._happened:
            return self._queue.popleft()
        if now_ms >= self._not_before_ms:
            if self._happened:
                return self._happened.popleft()
            due_ms = self.core.next_deadline_ms()
            is_due = due_ms is not None and due_ms <= now_ms
            if is_due and self.grace.over_ms <= now_ms:
                if self._queue and self._asked_since_due < BEFORE_A_DEADLINE_MAX:
                    self._asked_since_due += 1
                    return self._queue.popleft()
                self._asked_since_due = 0
                return DeadlinePassed()
        self._asked_since_due = 0
        return self._next_request()

    def _joining(self, batch: Batch) -> Item | None:
        """A request that joins the batch."""
        if self._is_broken or self._one_by_one or not batch.has_room:
            return None
        item = self._next_request()
        self._asked_since_due += item is not None
        return item

    def _next_request(self) -> Item | None:
        """The next request. A commit is refused while a happening is postponed that has to precede
        it."""
        while self._queue:
            item = self._queue.popleft()
            if not (isinstance(item, Commit) and self._bars_commits):
                return item
            self._refuse(item, RefusalReason.LOG_FAILED, "the state log failed")
        return None

    @property
    def _bars_commits(self) -> bool:
        """Whether the cluster may still store an earlier commit, whose answer was lost, or has
        stored those of another member that had the group (DEV D36)."""
        return any(isinstance(event, OffsetCommitEnded | GroupLost) for event in self._happened)

    def _decide(self, item: Item | Happening, batch: Batch, now_ms: int) -> None:
        """Add a decision to the batch. A long computation holds up this group only."""
        self._one_by_one = max(0, self._one_by_one - 1)
        if not isinstance(item, Happening):
            self._waiting[item.token] = item
        try:
            event = item if isinstance(item, Happening) else self._event_of(item)
            owner = item.owner if isinstance(item, Call) else None
            decide = partial(batch.decide, event, now_ms=now_ms, topics=self.topics, owner=owner)
            decide(may_take_long=False)
        except LongComputation:
            self._computing = item
            self._move(LogPhase.COMPUTING)
            self._effects.append(Compute(decide))
        except Exception as error:  # the boundary of the group: InvariantError included
            self._break(item, error, now_ms)

    def _event_of(self, item: Item) -> Request:
        if item.make is not None:
            item.event = item.make(item.token, self.topics)
        assert item.event is not None
        return item.event

    def _close(self, batch: Batch, now_ms: int) -> None:
        """Write the batch, or carry it out immediately if there is nothing to write."""
        if batch.durable:
            self._move(LogPhase.WRITING)
            self._effects.append(Write(batch))
            return
        decisions = [decision.reported for decision in batch.decisions if decision.reported.events]
        if decisions:
            self._effects.append(ReportEvents(decisions))
        self.on_written(now_ms)

    def _apply(self, decision: Decision, now_ms: int) -> None:
        step = decision.step
        for record in step.records:
            self.core.apply(record)
        self._record_last_statement(decision)
        for token, reply in step.replies:
            if (item := self._waiting.pop(token, None)) is not None:
                self._answered_ms = now_ms
                self._has_served |= isinstance(reply, SERVED) and not reply.error
                self.outcomes.append((item, reply))
        if step.resolution is not None:
            self._effects.append(Resolve(step.resolution))
        if step.computation is not None:
            self._effects.append(Assign(step.computation))
        if self.observer is not None:
            self.observer.record_applied(decision)

    # -- failures --------------------------------------------------------------------------------

    def _break(self, item: Item | Happening, error: Exception, now_ms: int) -> None:
        """A bug: the group is loaded again once the batch is settled. Other groups continue."""
        self._is_broken = True
        if isinstance(item, Happening):
            self._log_bug(item, error)
            self._postpone(item, now_ms)
            return
        self._log_bug(item.event, error)
        if item.event is None:
            self.outcomes.append((self._waiting.pop(item.token), Unanswerable()))

    def _reload(self) -> None:
        self._is_broken = False
        self._one_by_one = 0
        self._refuse_waiting(RefusalReason.RELOADING)
        self.load()

    def _put_back(self, event: Event) -> None:
        if isinstance(event, Happening):
            self._happened.appendleft(event)
        else:
            self._queue.appendleft(self._waiting.pop(event.token))

    def _postpone(self, event: Happening, now_ms: int) -> None:
        """Put back a happening that could not be handled. Nobody will repeat it, so it must not be
        lost. Meanwhile only requests are decided."""
        if isinstance(event, StepOfMove):
            self.outcomes.append((event, False))
            return
        if not isinstance(event, DeadlinePassed):
            self._happened.appendleft(event)
        self._not_before_ms = now_ms + POSTPONED_MS

    def _refuse_queue(self) -> None:
        while self._queue:
            self._refuse(self._queue.popleft(), RefusalReason.LOADING)

    def _refuse_waiting(self, cause: RefusalReason) -> None:
        while self._waiting:
            _token, item = self._waiting.popitem()
            self._refuse(item, cause)

    def _refuse(self, item: Item, cause: RefusalReason, reason: str = "") -> None:
        self.outcomes.append((item, refuse(cause, reason)))

    def _log_bug(self, event: Event | None, error: Exception) -> None:
        # The event's name only: the event itself may hold a client's data.
        fields = {"event_type": type(event).__name__}
        self._effects.append(Log("error", "group_failed", fields, error))

    # -- ending ----------------------------------------------------------------------------------

    def unload_if_quiet(self) -> None:
        """Drop the engine if the group has no members and nothing is under way."""
        state = self.core.state
        if self.phase is not LogPhase.READY:
            return
        if self._happened or self._queue or not state.is_quiet:
            self._is_forgotten = False
            return
        if state.group is None and not state.config_overrides and not self._is_forgotten:
            self._move(LogPhase.WRITING)
            self._effects.append(Forget())
            return
        self._is_forgotten = False
        self._has_served = False
        self.core = GroupEngine(self._group_id, self._config)
        self._move(LogPhase.UNLOADED)

    def _move(self, phase: LogPhase) -> None:
        self.phase = check_move(LOG, self.phase, phase)
