"""The gateway as far as one group sees it: drives the engine by the rules of its group's task.

A batch is durable, then applied, then the answers leave. Steps may be gathered and leave together;
a crash then loses all of them, from some batch on, and every answer. A batch that cannot be written
is as if nothing had happened. Must not know clients or connections.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from coordinator.config import GroupConfig, MigrationPolicy
from coordinator.engine import GroupEngine, Step
from coordinator.errors import ErrorCode, GroupError
from coordinator.events import (
    Event,
    Happening,
    OffsetCommitEnded,
    RegexesResolved,
    Request,
    TimePassed,
)
from coordinator.records import DurableRecord, TargetAssignmentMetadata
from coordinator.replies import Reply
from coordinator.simulation.cluster import Cluster
from coordinator.simulation.replay import compacted
from coordinator.simulation.world import World
from coordinator.topic_regex import match_topics
from coordinator.topics import Partition, Topics

GROUP = "orders"
POSTPONED_MS = 1_000
"""How much later what has happened all the same is handled again, when the log failed."""
RESOLUTION_MS_MAX = 200
TIMER_LAG_MS_MAX = 30
"""How late a busy gateway may be with a deadline."""

Batch = tuple[DurableRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply and what the receiver needs to read it: the topics of that moment, and the stored
    offsets of a fetch."""

    reply: Reply
    at_ms: int
    topics: Topics
    offsets: Mapping[Partition, int] = field(default_factory=dict)


class _Decided(NamedTuple):
    """A step that was applied and is not durable yet."""

    step: Step
    at_ms: int
    topics: Topics


class Observer(Protocol):
    """Looks at each step: before it is decided, before it is applied, and after that."""

    def before_step(self) -> None: ...
    def decided(self) -> None: ...
    def after_step(self, event: Event, step: Step) -> None: ...
    def after_load(self, batches: Sequence[Batch]) -> None: ...


class Driver:
    """One group's task, its process and its log."""

    def __init__(self, world: World, cluster: Cluster, config: GroupConfig) -> None:
        self.config = config
        self.engine = GroupEngine(GROUP, config)
        self.observer: Observer | None = None
        self.crashed: Callable[[], None] = lambda: None
        self.target_moved: Callable[[], None] = lambda: None
        self.is_up = True
        self.linger_ms = 0
        self.log_failure_rate = 0.0
        self.waiting: dict[int, Callable[[Answer], None]] = {}
        self._world = world
        self._cluster = cluster
        self._log: list[Batch] = []
        self._gathered: list[_Decided] = []
        self._timer_at_ms: int | None = None
        self._life = 0

    def ask(self, request: Request, answered: Callable[[Answer], None]) -> None:
        """Decide a request; it is answered once its records are durable."""
        self._world.counts["requests"] += 1
        self.waiting[request.token] = answered
        self._handle(request)

    def end_commit(self, event: OffsetCommitEnded) -> None:
        """The cluster answered a commit, or never will."""
        if self.is_up:
            self._handle(event)

    def crash(self, down_ms: int, policy: MigrationPolicy | None = None) -> None:
        """The process dies, and comes back from its log, perhaps with another policy."""
        survivors = self._world.between(0, len(self._gathered))
        self._log += [each.step.durable for each in self._gathered[:survivors] if each.step.durable]
        self._world.tell("gateway", f"crashes, {len(self._gathered) - survivors} batches lost")
        self._world.counts["crashes"] += 1
        self._gathered.clear()
        self.waiting.clear()
        self.is_up = False
        self._life += 1
        self._cluster.fence_commits()
        self.crashed()
        if policy is not None:
            self.config = replace(self.config, consumer_migration_policy=policy)
        self._world.after(down_ms, self._start)

    @property
    def topics(self) -> Topics:
        """The topics' image."""
        return self._cluster.topics

    def unanswered(self) -> set[int]:
        """Requests that no step has answered yet, whether that answer has left or not."""
        answered = {token for each in self._gathered for token, _ in each.step.replies}
        return self.waiting.keys() - answered

    # -- deciding --------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        world, observer = self._world, self.observer
        world.counts["events"] += 1
        if observer is not None:
            observer.before_step()
        step = self.engine.handle(event, now_ms=world.now_ms, topics=self._cluster.topics)
        if observer is not None:
            observer.decided()
        if step.durable and world.chance(self.log_failure_rate):
            self._log_failed(event)
            return
        for record in step.records:
            self.engine.apply(record)
            world.tell("engine", record)
        self._gathered.append(_Decided(step, world.now_ms, self._cluster.topics))
        if observer is not None:
            observer.after_step(event, step)
        if self.linger_ms == 0:
            self._flush(self._life)
        elif len(self._gathered) == 1:
            world.after(world.between(0, self.linger_ms), self._flush, self._life)
        if any(isinstance(record, TargetAssignmentMetadata) for record in step.records):
            self.target_moved()
        if step.resolution is not None:
            delay_ms = world.between(1, RESOLUTION_MS_MAX)
            world.after(delay_ms, self._resolve, step.resolution.regexes, self._life)
        self._watch_the_clock()

    def _resolve(self, regexes: frozenset[str], life: int) -> None:
        """Match regular expressions against the topics there are now; at times that fails."""
        if life != self._life:
            return
        topics = self._cluster.topics
        failed = self._world.chance(self.log_failure_rate)
        matched = None if failed else match_topics(sorted(regexes), topics.by_name)
        self._handle(RegexesResolved(topics=matched, version=topics.names_version))

    def _log_failed(self, event: Event) -> None:
        self._world.tell("gateway", "cannot write its log")
        if isinstance(event, Happening):
            self._world.after(POSTPONED_MS, self._again, event, self._life)
        else:
            why = GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state log failed")
            reply = event.refused(why)
            topics = self._cluster.topics
            self._answer(event.token, Answer(reply=reply, at_ms=self._world.now_ms, topics=topics))

    def _again(self, event: Event, life: int) -> None:
        if life == self._life:
            self._handle(event)

    def _flush(self, life: int) -> None:
        if life != self._life:
            return
        gathered, self._gathered = self._gathered, []
        self._log += [each.step.durable for each in gathered if each.step.durable]
        for each in gathered:
            for token, reply in each.step.replies:
                self._answer(token, Answer(reply=reply, at_ms=each.at_ms, topics=each.topics))
        if self.engine.state.is_quiet and not self.waiting:
            # The task ends; the next request starts another one.
            self._load([record for batch in self._log for record in batch])

    def _answer(self, token: int, answer: Answer) -> None:
        answered = self.waiting.pop(token, None)
        if answered is not None:
            answered(answer)

    # -- time ------------------------------------------------------------------------------------

    def _watch_the_clock(self) -> None:
        due_ms = self.engine.next_deadline_ms()
        if due_ms is not None and (self._timer_at_ms is None or due_ms < self._timer_at_ms):
            self._timer_at_ms = due_ms
            lag_ms = self._world.between(0, TIMER_LAG_MS_MAX)
            wait_ms = max(0, due_ms - self._world.now_ms) + lag_ms
            self._world.after(wait_ms, self._time_passed, due_ms, self._life)

    def _time_passed(self, due_ms: int, life: int) -> None:
        if life != self._life or due_ms != self._timer_at_ms:
            return
        self._timer_at_ms = None
        next_ms = self.engine.next_deadline_ms()
        if next_ms is not None and next_ms <= self._world.now_ms:
            self._handle(TimePassed())
        else:
            self._watch_the_clock()

    # -- the log ---------------------------------------------------------------------------------

    def _start(self) -> None:
        """Read the log as it is, or with a part of it compacted."""
        world = self._world
        if world.chance(0.5):
            cut = world.between(0, len(self._log))
            compact = tuple(compacted(record for batch in self._log[:cut] for record in batch))
            self._log[:cut] = [compact] if compact else []
        self.is_up = True
        self._load([record for batch in self._log for record in batch])
        world.tell("gateway", f"is back, policy {self.config.consumer_migration_policy}")

    def _load(self, records: list[DurableRecord]) -> None:
        self.engine = GroupEngine(GROUP, self.config)
        self.engine.load(records, now_ms=self._world.now_ms)
        self._timer_at_ms = None
        if self.observer is not None:
            self.observer.after_load(self._log)
        self._watch_the_clock()
