"""Drives the engine of one group as the gateway's group task does.

The driver makes a batch durable, applies it, and then sends the answers. It may gather several
steps into one write; a crash then loses the batches after some cut, and all the answers. A batch
that cannot be written changes nothing. If a write is in doubt, the driver reloads the group from
its log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from coordinator.consumer.topic_regex import match_topics
from coordinator.engine import GroupEngine, Step
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    GroupLost,
    Happening,
    HeartbeatReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
    RegexesResolved,
    Request,
    SyncGroupReceived,
    TimePassed,
)
from coordinator.interface.records import DurableRecord, TargetAssignmentMetadata
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import CommitEnded, RegexResolution
from gateway.simulation.cluster import Cluster
from gateway.simulation.replay import compacted
from gateway.simulation.world import World
from kafka_codecs.error_codes import ErrorCode

GROUP = "orders"
POSTPONED_MS = 1_000
"""The delay before an event that is not a request is retried after a log failure."""
RESOLUTION_MS_MAX = 200
TIMER_LAG_MS_MAX = 30
"""The longest delay with which a busy gateway handles a deadline."""

Batch = tuple[DurableRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply, with the topics at the time of the decision and the stored offsets of a fetch."""

    reply: Reply
    at_ms: int
    topics: Topics
    offsets: Mapping[Partition, int] = field(default_factory=dict)


class _Decided(NamedTuple):
    """A step that is applied but not yet durable."""

    event: Event
    step: Step
    at_ms: int
    topics: Topics


class _Waiting(NamedTuple):
    """An unanswered request and the receiver of its answer."""

    request: Request
    answered: Callable[[Answer], None]


class Observer(Protocol):
    """Inspects each step: before the decision, before it is applied, and afterwards."""

    def before_step(self) -> None: ...
    def decided(self) -> None: ...
    def after_step(self, event: Event, step: Step) -> None: ...
    def after_load(self, batches: Sequence[Batch]) -> None: ...


class Driver:
    """The task of one group, with its process and its log."""

    def __init__(self, world: World, cluster: Cluster, config: GroupConfig) -> None:
        self.config = config
        self.engine = GroupEngine(GROUP, config)
        self.observer: Observer | None = None
        self.crashed: Callable[[], None] = lambda: None
        self.target_moved: Callable[[], None] = lambda: None
        self.is_up = True
        self.linger_ms = 0
        self.log_failure_rate = 0.0
        self.log_doubt_rate = 0.0
        """The share of writes with an unknown outcome."""
        self.is_taken = False
        """Whether another coordinator serves the group."""
        self.has_given_way = True
        """Whether the fence of all members is durable, if the group is taken."""
        self.waiting: dict[int, _Waiting] = {}
        self._world = world
        self._cluster = cluster
        self._log: list[Batch] = []
        self._gathered: list[_Decided] = []
        self._timer_at_ms: int | None = None
        self._life = 0
        self._clock_ahead_ms = 0

    @property
    def now_ms(self) -> int:
        """The wall clock of the gateway's process. It never goes back, but differs from the clocks
        of earlier processes."""
        return self._world.now_ms + self._clock_ahead_ms

    def ask(self, request: Request, answered: Callable[[Answer], None]) -> None:
        """Decide a request. The answer follows once its records are durable."""
        self._world.counts["requests"] += 1
        self.waiting[request.token] = _Waiting(request, answered)
        if self.is_taken:
            self._refuse(request, _code_when_taken(request), "another coordinator has the group")
        else:
            self._handle(request)

    def end_commit(self, event: OffsetCommitEnded) -> None:
        """Tell the engine that the cluster answered a commit, or never will."""
        if self.is_up:
            self._handle(event)

    def take(self) -> None:
        """Let another coordinator take the group. The driver fences all members and admits none
        until `give_back`. The cluster accepts no more commits from it."""
        self._world.tell("cluster", "gives the group to another coordinator")
        self._world.counts["takeovers"] += 1
        self.is_taken, self.has_given_way = True, False
        self._cluster.fence_commits()
        self._give_way()

    def give_back(self) -> None:
        """Return the group to this driver."""
        self._world.tell("cluster", "returns the group to the gateway")
        self.is_taken = False

    def _give_way(self) -> None:
        if self.is_up and self.is_taken and not self.has_given_way:
            self._handle(GroupLost())

    def crash(
        self,
        down_ms: int,
        policy: MigrationPolicy | None = None,
        *,
        clock_ahead_ms: int | None = None,
    ) -> None:
        """End the process and restart it from its log, optionally with another policy or clock."""
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
        if clock_ahead_ms is not None:
            self._clock_ahead_ms = clock_ahead_ms
        self._world.after(down_ms, self._start)

    @property
    def topics(self) -> Topics:
        """The topic image."""
        return self._cluster.topics

    def unanswered(self) -> set[int]:
        """Tokens of the requests that no step has answered. A gathered answer counts as one."""
        answered = {token for each in self._gathered for token, _ in each.step.replies}
        return self.waiting.keys() - answered

    # -- deciding --------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        world, observer = self._world, self.observer
        world.counts["events"] += 1
        if observer is not None:
            observer.before_step()
        step = self.engine.handle(event, now_ms=self.now_ms, topics=self._cluster.topics)
        if observer is not None:
            observer.decided()
        if step.durable and world.chance(self.log_failure_rate):
            self._log_failed(event)
            return
        for record in step.records:
            self.engine.apply(record)
            world.tell("engine", record)
        self._gathered.append(_Decided(event, step, world.now_ms, self._cluster.topics))
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
            world.after(delay_ms, self._resolve, step.resolution)
        self._watch_the_clock()

    def _resolve(self, resolution: RegexResolution) -> None:
        """Match regular expressions against the present topics, or fail. A group that was loaded
        since then does not wait for the result."""
        if not self.is_up or self.engine.state.resolution is not resolution:
            return
        topics = self._cluster.topics
        failed = self._world.chance(self.log_failure_rate)
        matched = None if failed else match_topics(sorted(resolution.regexes), topics.by_name)
        self._handle(RegexesResolved(topics=matched, version=topics.names_version))

    def _log_failed(self, event: Event) -> None:
        self._world.tell("gateway", "cannot write its log")
        if isinstance(event, Happening):
            self._world.after(POSTPONED_MS, self._again, event, self._life)
        else:
            self._refuse(event, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state log failed")

    def _refuse(self, request: Request, code: ErrorCode, why: str) -> None:
        reply, topics = request.refused(GroupError(code, why)), self._cluster.topics
        self._answer(request.token, Answer(reply=reply, at_ms=self._world.now_ms, topics=topics))

    def _again(self, event: Event, life: int) -> None:
        if life == self._life:
            self._handle(event)

    def _flush(self, life: int) -> None:
        if life != self._life:
            return
        gathered, self._gathered = self._gathered, []
        batches = [each.step.durable for each in gathered if each.step.durable]
        if batches and self._world.chance(self.log_doubt_rate):
            self._log_in_doubt(gathered, batches)
            return
        self._log += batches
        for each in gathered:
            self.has_given_way |= isinstance(each.event, GroupLost)
            for token, reply in each.step.replies:
                self._answer(token, Answer(reply=reply, at_ms=each.at_ms, topics=each.topics))
        if self.engine.state.is_quiet and not self.waiting:
            # The task ends; the next request starts another one.
            self._load([record for batch in self._log for record in batch])

    def _log_in_doubt(self, gathered: Sequence[_Decided], batches: Sequence[Batch]) -> None:
        """Reload the group from its log, which may have the batch or not. Refuse all requests, so
        that clients retry, and retry all other events later."""
        world = self._world
        is_written = world.chance(0.5)
        world.tell("gateway", f"reloads; its log {'has' if is_written else 'lacks'} the batch")
        world.counts["batches in doubt"] += 1
        if is_written:
            self._log += batches
        for each in gathered:
            if isinstance(each.event, Happening):
                world.after(POSTPONED_MS, self._again, each.event, self._life)
            elif isinstance(each.event, OffsetCommitReceived):
                self.engine.apply(CommitEnded(each.event.token))  # refused below
        self._load([record for batch in self._log for record in batch], self.engine)
        for waiting in list(self.waiting.values()):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._refuse(waiting.request, code, "the group was reloaded")

    def _answer(self, token: int, answer: Answer) -> None:
        waiting = self.waiting.pop(token, None)
        if waiting is not None:
            waiting.answered(answer)

    # -- time ------------------------------------------------------------------------------------

    def _watch_the_clock(self) -> None:
        due_ms = self.engine.next_deadline_ms()
        if due_ms is not None and (self._timer_at_ms is None or due_ms < self._timer_at_ms):
            self._timer_at_ms = due_ms
            lag_ms = self._world.between(0, TIMER_LAG_MS_MAX)
            wait_ms = max(0, due_ms - self.now_ms) + lag_ms
            self._world.after(wait_ms, self._time_passed, due_ms, self._life)

    def _time_passed(self, due_ms: int, life: int) -> None:
        if life != self._life or due_ms != self._timer_at_ms:
            return
        self._timer_at_ms = None
        next_ms = self.engine.next_deadline_ms()
        if next_ms is not None and next_ms <= self.now_ms:
            self._handle(TimePassed())
        else:
            self._watch_the_clock()

    # -- the log ---------------------------------------------------------------------------------

    def _start(self) -> None:
        """Load the log, with a random part of it compacted."""
        world = self._world
        if world.chance(0.5):
            cut = world.between(0, len(self._log))
            compact = tuple(compacted(record for batch in self._log[:cut] for record in batch))
            self._log[:cut] = [compact] if compact else []
        self.is_up = True
        self._load([record for batch in self._log for record in batch])
        world.tell(
            "gateway",
            f"is back, policy {self.config.consumer_migration_policy},"
            f" its clock {self._clock_ahead_ms} ms ahead",
        )
        self._give_way()

    def _load(self, records: list[DurableRecord], before: GroupEngine | None = None) -> None:
        """`before` is the previous engine of the group in the same process."""
        self.engine = GroupEngine(GROUP, self.config)
        self.engine.load(records, now_ms=self.now_ms)
        if before is not None:
            self.engine.keep_commits(before)
        self._timer_at_ms = None
        if self.observer is not None:
            self.observer.after_load(self._log)
        self._watch_the_clock()


def _code_when_taken(request: Request) -> ErrorCode:
    """UNKNOWN_MEMBER_ID makes members give up their partitions; other requests may be retried."""
    match request:
        case HeartbeatReceived() | SyncGroupReceived():
            return ErrorCode.UNKNOWN_MEMBER_ID
        case ConsumerHeartbeatReceived(member_epoch=epoch) if epoch > 0:
            return ErrorCode.UNKNOWN_MEMBER_ID
        case _:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
