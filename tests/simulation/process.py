"""One process of the gateway: the shipped machine of the group, with effects in simulated time.

It is the twin of `gateway/groups/group_driver.py`. Nothing of a killed process continues, but what
it has sent to the cluster or the log may still arrive.
"""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from coordinator.assignors import ASSIGNORS, spec_of
from coordinator.consumer.topic_regex import match_topics
from coordinator.engine import GroupEngine, Step
from coordinator.group import load
from coordinator.group.state import Record
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    AssignmentReceived,
    ClaimReceived,
    Event,
    RegexesResolved,
)
from coordinator.interface.records import is_tombstone
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.value import value
from coordinator.interface.volatile_records import Token
from gateway.events.group_events import GenerationWentBack, GroupTaken
from gateway.groups.pauses import Pauses
from gateway.hosting import inputs
from gateway.hosting.adoptable import why_not_found
from gateway.hosting.answers import GroupApi
from gateway.hosting.batch import Decision
from gateway.hosting.calls import Call, Forwarded, PendingAction, Reserve
from gateway.hosting.effects import (
    Ask,
    AskCoordinator,
    Assign,
    Compute,
    Describe,
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
from gateway.hosting.group_routing import GroupRouting
from gateway.hosting.identity import Gateway
from gateway.hosting.inputs import Input
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, LookupOutcome, NoMembers
from gateway.hosting.move_requests import (
    AdoptionOutcome,
    AdoptRequest,
    AnyRequest,
    NewProtocol,
    ReleaseOutcome,
    ReleaseRequest,
)
from gateway.hosting.rules import HostingRules
from gateway.hosting.states import Adoption, Mode
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.sync_group import SyncGroupRequest
from tests.simulation.cluster import GROUP, Cluster
from tests.simulation.state_log import SimulatedLog
from tests.simulation.world import World

LOG_ID = "log-1"
LOAD_MS_MAX = 10
RESOLUTION_MS_MAX = 200
PLUG_IN_MS_MAX = 4_000
TIMER_LAG_MS_MAX = 30
"""The longest delay with which a busy gateway handles a deadline."""
TICK_MS = 1_000
"""How often the process looks at the clock, to notice that it was paused."""
GRACE_MS_MAX = 2_000
RELEASE_AGAIN_MS = 5_000
"""How soon a release that a setting asks for is tried again."""
ADOPT_AGAIN_MS = 250
"""How soon an operator tries again to adopt a group."""
FIRST_CLAIM = 2_000_000_000
"""The tokens of a process's own requests, which no client has."""
MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""The broker has done nothing: it is not the coordinator, or not yet."""
LONGEST_SESSION_MS = 15_000


@dataclass(kw_only=True, slots=True)
class Surroundings:
    """What all processes of the gateway share."""

    world: World
    cluster: Cluster
    log: SimulatedLog
    linger_ms: int
    """How long an anchor outlives the group's last member."""
    engine: GroupEngine
    """The engine of the newest process that has loaded the group."""
    plug_in_failure_rate: float = 0.0
    """The share of the plug-in's results that are wrong."""
    host_patterns: tuple[str, ...] = ("*",)
    """The setting groups_host."""
    forward_patterns: tuple[str, ...] = ()
    """The setting groups_forward."""
    adoption: Adoption = "manual"
    """The setting groups_adopt."""


class Applied(NamedTuple):
    """When an answer was decided for good: its decision has taken effect."""

    at_ms: int
    topics: Topics
    asks: int
    """How many requests the anchor had sent by then."""
    is_of_move: bool = False
    """Whether a member of a group that changes its coordinator gets it, without a decision."""


class Served(Protocol):
    """The client's side of a call. It reports to the process."""

    def do(self, pending_action: PendingAction) -> None:
        """Carry out an action, and feed what comes of it."""

    def on_answer(self, call: Call) -> None:
        """The call has its answer."""


class Watcher(Protocol):
    """Checks the group of a process."""

    def before_decision(self, engine: GroupEngine, event: Event) -> None: ...
    def after_decision(self, engine: GroupEngine) -> None: ...
    def record_loaded(self, process: "Process") -> None: ...
    def given_up(self, process: "Process") -> None: ...
    def record_applied(self, process: "Process", decision: Decision, topics: Topics) -> None: ...


@value()
class DecidedStep(Step):
    """A step with the topics that it was decided on: it may take effect when there are others.
    `follows`: how many records the engine had applied by then."""

    topics: Topics
    follows: int


class WatchedEngine(GroupEngine):
    """Shows each decision to the watcher."""

    process: "Process"
    records_applied: int = 0

    def fork(self) -> "WatchedEngine":
        twin = super().fork()
        twin.process, twin.records_applied = self.process, self.records_applied
        return twin

    def apply(self, record: Record) -> None:
        super().apply(record)
        self.records_applied += 1

    def handle(
        self, event: Event, *, now_ms: int, topics: Topics, may_take_long: bool = True
    ) -> Step:
        watcher = self.process.watcher
        if watcher is not None:
            watcher.before_decision(self, event)
        step = super().handle(event, now_ms=now_ms, topics=topics, may_take_long=may_take_long)
        if watcher is not None:
            watcher.after_decision(self)
        return DecidedStep(
            records=step.records,
            durable=step.durable,
            replies=step.replies,
            resolution=step.resolution,
            computation=step.computation,
            topics=topics,
            follows=self.records_applied,
        )


class Process:
    """One process. Its clock is `ahead_ms` ahead of the world's."""

    def __init__(
        self, number: int, around: Surroundings, config: GroupConfig, *, ahead_ms: int
    ) -> None:
        self.around = around
        self.number = number
        self.config = config
        self.ahead_ms = ahead_ms
        self.writer = around.log.take()
        self.is_alive, self.is_paused = True, False
        self.awake_since_ms = around.world.now_ms
        """When the process began or was last resumed."""
        self.read_ms = 0
        """When the group was read from its log, by the world's clock. Its sessions begin then."""
        self.watcher: Watcher | None = None
        self.applied_at: dict[Token, Applied] = {}
        """For each answer of the engine, when it took effect."""
        self.disconnected: set[str] = set()
        """The native members that closed their connections, and have sent nothing since."""
        self.spoke_on: dict[str, Served] = {}
        """The connection of each native member's latest heartbeat."""
        self.asks = 0
        """How many requests the anchor has sent."""
        self.confirmed = 0
        """The number of the latest of them that found the anchor in the group."""
        self.confirmed_ms = 0
        """When its answer arrived."""
        self.confirmed_generation = 0
        """The generation in which the anchor was then."""
        self.given_up_ms = 0
        """When it last fenced all members, because a consumer had the group in the cluster."""
        self.found: LookupOutcome = LookupFailed("not asked yet")
        """What the latest look has found."""
        self.rules = HostingRules(
            config=config,
            gateway=Gateway(log_id=LOG_ID, run_id=number),
            longest_session_ms=LONGEST_SESSION_MS,
            host_patterns=around.host_patterns,
            forward_patterns=around.forward_patterns,
            adoption=around.adoption,
            can_anchor=around.cluster.holds_anchors,
            linger_ms=around.linger_ms,
        )
        self.pauses = Pauses(self.now_ms, grace_ms_max=GRACE_MS_MAX)
        self.group = HostedGroup(GroupRouting(GROUP, self.rules))
        self.group.engine.observer = self
        self._to_clients: list[Call | PendingAction] = []
        """Calls that have their answers, and pending actions. Clients learn of them last."""
        self._inputs: deque[Input] = deque()
        """The inputs that are to be handled next."""
        self.relayed: set[Call] = set()
        """Calls that the cluster answers."""
        self._draining: list[Hold] = []
        self._held_back: list[Callable[[], None]] = []
        self.outcomes: list[AdoptionOutcome | ReleaseOutcome] = []
        """What became of the moves that operators have ordered."""
        self._was_between = False
        """Whether the group changed its coordinator before the present input."""
        self._claims = itertools.count(FIRST_CLAIM)
        self._loads = 0
        self._timer_at_ms: int | None = None
        self._after(TICK_MS, self._tick)

    @property
    def now_ms(self) -> int:
        """The process's wall clock."""
        return self.around.world.now_ms + self.ahead_ms

    @property
    def topics(self) -> Topics:
        """The topics that the group knows."""
        return self.group.engine.topics

    @property
    def is_between(self) -> bool:
        """Whether the group changes its coordinator, and has no members here."""
        return self.group.is_moving and not self.group.is_live

    @property
    def may_answer(self) -> bool:
        """Whether this process still owns the log."""
        return self.around.log.is_owned_by(self.writer)

    def start(self) -> None:
        """Take up the group if the log has it, as `Groups.resume` does."""
        newest = load.newest(self.around.log.records())
        records = [record for record in newest if not is_tombstone(record)]
        if not records:
            return
        release = load.release_in(records)
        if load.is_adopted(records):
            self.rules.adopted.add(GROUP)
        is_leaving = release is not None and release.is_under_way
        if release is not None and not is_leaving:
            self.rules.released.add(GROUP)
        self.feed(inputs.Resumed(load.has_adoption(records) or is_leaving))
        self._release_by_setting()

    def _release_by_setting(self) -> None:
        """Release a group that is kept against its setting, as `ConfiguredReleases` does."""
        group = self.group
        is_kept = group.is_live or group.is_moving or group.engine.is_loading
        if group.routing.is_configured and (is_kept or group.routing.is_adopted):
            self.release()
            self._after(RELEASE_AGAIN_MS, self._release_by_setting)

    # -- what operators want ---------------------------------------------------------------------

    def adopt(self, tries: int = 1) -> None:
        """Have the group adopted, as `Groups.adopt` does. One that cannot be adopted at the moment
        may be tried again."""
        if not tries or not self.is_alive:
            return
        routing = self.group.routing
        if self.group.is_moving:
            self.feed(inputs.MoveRequested(AdoptRequest(operator=self)))
        elif self.group.is_live or routing.is_configured:
            self._tell("is hosted already, or left to the cluster by a setting")
        else:
            self.around.cluster.look(partial(self._if_alive, self._adopt_found, tries))

    def _adopt_found(self, tries: int, outcome: LookupOutcome | None) -> None:
        if self.group.is_live or self.group.is_moving:
            return
        is_ours = (
            isinstance(outcome, LiveMembers)
            and outcome.anchored is not None
            and self.group.routing.is_ours(outcome.anchored)
        )
        if isinstance(outcome, NoMembers) or is_ours:
            self._claim()
            return
        watched = self.rules.watched.group(GROUP)
        known = outcome or LookupFailed("nobody answers")
        if reasons := why_not_found(known, watched, self.config, self.now_ms):
            self._tell(f"does not adopt: {reasons}")
            self._after(ADOPT_AGAIN_MS, self._do, self.adopt, tries - 1)
        else:
            self._do(self.feed, inputs.MoveRequested(AdoptRequest(operator=self)))

    def _claim(self) -> None:
        """Have a group without members in the cluster hosted until it is released."""
        if self.group.routing.is_adopted:
            return
        token = next(self._claims)
        claim = Call(
            api=GroupApi.ADMIN,
            event=ClaimReceived(token=token),
            token=token,
            is_placed=True,
            is_at_coordinator=True,
            knows_topics=True,
        )
        claim.client = self
        self._do(self.feed, inputs.Asked(claim))

    def on_answer(self, call: Call) -> None:
        """A claim of the process itself is stored, or not."""
        if isinstance(call.answer, Reply) and not call.answer.error:
            self.group.routing.forget("it was adopted")

    def do(self, pending_action: PendingAction) -> None:
        """A claim needs none."""
        raise AssertionError(pending_action)

    def release(self) -> None:
        """Have the group released, as `Groups.release_to_cluster` does."""
        if self.group.is_moving or not self.group.routing.is_released:
            takes_natives = self.around.cluster.group.profile.has_native_members
            reason = "" if takes_natives else "the cluster does not have it"
            new_protocol = NewProtocol(why_no_natives=reason)
            request = ReleaseRequest(new_protocol=new_protocol, operator=self)
            self.feed(inputs.MoveRequested(request))

    def is_forwarded(self, outcome: LookupOutcome | None) -> bool:
        """Whether the cluster answers, as `Groups.is_forwarded` decides after a look."""
        group = self.group
        if group.move.seeks_anchor:
            return False
        if group.is_live or group.is_moving:
            return not group.is_live
        known = outcome or LookupFailed("nobody answers")
        decision = group.routing.take(known, self.now_ms, is_held=group.anchor.is_here)
        if group.routing.is_left and decision.has_anchor:
            self.feed(inputs.MoveRequested(ReleaseRequest()))
        return decision.mode is Mode.FORWARDED

    def end_relayed(self, call: Call) -> None:
        """The cluster has answered a call, or no client waits for the answer."""
        self.relayed.discard(call)
        while self._draining and not self.relayed:
            self.feed(inputs.Done(self._draining.pop()))

    def kill(self) -> None:
        """End the process immediately."""
        self.is_alive = False

    def pause(self) -> None:
        """Stop the process; what happens to it waits."""
        self.is_paused = True

    def go_on(self) -> None:
        """Handle what has happened during the pause."""
        self.is_paused, self.awake_since_ms = False, self.around.world.now_ms
        held_back, self._held_back = self._held_back, []
        for do in held_back:
            do()
        self._watch_the_clock()

    def ask(self, call: Call, served: Served) -> None:
        """Give the group a call."""
        call.client = served
        self.feed(inputs.Asked(call))

    def _do(self, do: Callable[..., None], *args: Any) -> None:
        self.when_awake(partial(do, *args))

    def when_awake(self, do: Callable[[], None]) -> None:
        """Do something once the process runs, if it lives."""
        if self.is_paused:
            self._held_back.append(partial(self.when_awake, do))
        elif self.is_alive:
            do()

    def feed(self, event: Input) -> None:
        """Give the group an input and carry out what follows."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._held_back.append(partial(self.feed, event))
            return
        self._was_between = self.is_between
        only = self.group.take_at_rest(event, self.now_ms)
        if only is None:
            self._handle(event)
        else:
            carry_out(only, self)
        while self._to_clients:
            to_clients, self._to_clients[:] = [*self._to_clients], []
            for news in to_clients:
                self._pass_on(news)
        if only is None:
            self._watch_the_clock()

    def _handle(self, event: Input) -> None:
        grace_over_ms = self.pauses.observe(self.now_ms)
        if grace_over_ms > max(self.now_ms, self.group.engine.grace.over_ms):
            self._inputs.append(inputs.Paused(grace_over_ms))
        self._inputs.append(event)
        while self._inputs:
            for effect in self.group.handle(self._inputs.popleft(), self.now_ms):
                carry_out(effect, self)

    def _pass_on(self, news: Call | PendingAction) -> None:
        served: Served = (news if isinstance(news, Call) else news.call).client
        if isinstance(news, Call):
            served.on_answer(news)
        elif news.call.answer is None:
            served.do(news)

    # -- the observer of the engine --------------------------------------------------------------

    def record_loaded(self) -> None:
        """The group was read from its log."""
        if self.watcher is not None:
            self.around.engine = self.group.engine.core
            self.watcher.record_loaded(self)

    def record_applied(self, decision: Decision) -> None:
        """A decision has taken effect."""
        step = decision.step
        topics = step.topics if isinstance(step, DecidedStep) else self.topics
        applied = Applied(self.around.world.now_ms, topics, self.asks)
        for token, _reply in decision.step.replies:
            self.applied_at[token] = applied
        if self.watcher is not None:
            self.watcher.record_applied(self, decision, topics)

    # -- the surroundings of the group -----------------------------------------------------------

    def log(self, line: Log) -> None:
        """A bug ends the run."""
        if line.error is not None:
            raise line.error
        self.around.world.trace(self.name, (line.event, line.fields))

    def report(self, events: ReportEvents | EmitNow) -> None:
        """Note what an operator would learn."""
        if not isinstance(events, EmitNow):
            return
        world, event = self.around.world, events.event
        world.trace(self.name, event.name)
        if isinstance(event, GroupTaken | GenerationWentBack):
            self.given_up_ms = world.now_ms
        if self.watcher is not None and isinstance(event, GroupTaken):
            self.watcher.given_up(self)

    def answer(self, call: Call) -> None:
        """The client learns it after all effects."""
        if isinstance(call.answer, Forwarded):
            self.relayed.add(call)
        elif self._was_between:
            applied = Applied(self.around.world.now_ms, self.topics, self.asks, is_of_move=True)
            for item in call.items:
                self.applied_at.setdefault(item.token, applied)
        self._to_clients.append(call)

    def start_action(self, pending_action: PendingAction) -> None:
        """The client learns of it after all effects."""
        self._to_clients.append(pending_action)

    def conclude(self, request: AnyRequest) -> None:
        """The transcript and the counts have what became of it."""
        outcome: AdoptionOutcome | ReleaseOutcome | None = request.outcome
        assert outcome is not None
        self.around.world.trace(self.name, outcome)
        match outcome:
            case AdoptionOutcome(is_adopted=is_adopted, held_ms=held_ms):
                name = "adoptions" if is_adopted else "adoptions refused"
                name = name if is_adopted or held_ms is None else "adoptions undone"
            case ReleaseOutcome(is_released=is_released):
                name = "releases" if is_released else "releases refused"
        self.around.world.counts[name] += 1
        self.outcomes.append(outcome)

    def reserve(self, effect: Reserve) -> None:
        """There is always room."""
        self._inputs.append(inputs.Done(effect))

    def start_work(self, effect: Work) -> None:
        """Carry out what takes time."""
        world, cluster = self.around.world, self.around.cluster
        match effect:
            case Look():
                cluster.look(partial(self._on_look, effect))
            case Describe():
                cluster.describe(partial(self._on_description, effect))
            case Load():
                self._loads += 1
                self._after(world.between(0, LOAD_MS_MAX), self._load, effect)
            case Write():
                world.after(self.around.log.delay_ms(), self._write, effect)
            case Forget():  # there is nothing to forget
                self._after(0, self.feed, inputs.Done(effect))
            case Compute(compute):
                compute()
                self._after(1, self.feed, inputs.Done(effect))
            case Resolve():
                delay_ms = world.between(1, RESOLUTION_MS_MAX)
                self._after(delay_ms, self._resolve, effect, self._loads)
            case Assign():
                delay_ms = world.between(1, PLUG_IN_MS_MAX)
                self._after(delay_ms, self._assign, effect, self._loads)
            case Ask() if not self.may_answer:
                self._after(0, self.feed, inputs.Failed(effect, "the log is not ours"))
            case Ask(requester, message):
                cluster.ask_coordinator(
                    message, partial(self._heard_in_move, effect), (self, requester)
                )
            case AskCoordinator(JoinGroupRequest() | SyncGroupRequest()) if not self.may_answer:
                self._after(0, self.feed, inputs.Failed(effect, "the log is not ours"))
            case AskCoordinator(message):
                self.asks += 1
                cluster.ask_coordinator(
                    message, partial(self._on_coordinator_answer, effect, self.asks)
                )
            case Hold():  # until the cluster has answered all calls that were relayed
                self._draining.append(effect)
                if not self.relayed:
                    self._after(0, self._on_drained, effect)

    def _on_drained(self, effect: Hold) -> None:
        if effect in self._draining and not self.relayed:
            self._draining.remove(effect)
            self.feed(inputs.Done(effect))

    def _tell(self, what: str) -> None:
        self.around.world.trace(self.name, what)

    @property
    def name(self) -> str:
        """The process's name in transcripts."""
        return f"gateway {self.number}"

    def _after(self, delay_ms: int, do: Callable[..., None], *args: Any) -> None:
        self.around.world.after(delay_ms, self._if_alive, do, *args)

    def _if_alive(self, do: Callable[..., None], *args: Any) -> None:
        if self.is_alive:
            do(*args)

    def _on_coordinator_answer(
        self, effect: AskCoordinator, number: int, answer: Struct | None, code: int
    ) -> None:
        """The coordinator answered the anchor, or did not."""
        if answer is None:
            self.feed(inputs.Failed(effect, "nobody answers"))
            return
        message = effect.message
        if not code and isinstance(message, HeartbeatRequest | SyncGroupRequest):
            self.confirmed, self.confirmed_ms = number, self.around.world.now_ms
            self.confirmed_generation = message.generation_id
        self.feed(inputs.Done(effect, answer))

    def _heard_in_move(self, effect: Ask, answer: Struct | None, code: int) -> None:
        """Do as `GroupDriver._ask_for_move` does: what says that the coordinator has moved is no
        answer."""
        if answer is None or code in MOVED:
            self.feed(inputs.Failed(effect, "nobody answers"))
        else:
            self.feed(inputs.Done(effect, answer))

    def _on_description(self, effect: Describe, group: DescribedGroup | None) -> None:
        self.feed(inputs.Done(effect, group))

    def _on_look(self, effect: Look, outcome: LookupOutcome | None) -> None:
        self.found = outcome if outcome is not None else LookupFailed("nobody answers")
        self.feed(inputs.Done(effect, self.found))

    def _load(self, effect: Load) -> None:
        around = self.around
        if around.log.fails_to_read() or not self.may_answer:
            self.feed(inputs.Failed(effect, "the log cannot be read"))
            return
        engine = WatchedEngine(GROUP, self.config)
        engine.process = self
        self.read_ms = around.world.now_ms
        engine.load(around.log.records(), now_ms=self.now_ms)
        self.feed(inputs.Done(effect, LoadedGroup(engine, around.cluster.topics)))

    def _write(self, effect: Write) -> None:
        """The write reaches the log, whether the process still runs or not."""
        decisions = effect.batch.decisions
        damage = self.around.log.append(
            self.writer, [decision.step.durable for decision in decisions]
        )
        result = inputs.Done(effect) if damage is None else inputs.Failed(effect, damage)
        self._if_alive(self.feed, result)

    def _resolve(self, effect: Resolve, load: int) -> None:
        """Match regular expressions, or fail. A group that was loaded since then does not wait."""
        if load != self._loads:
            return
        cluster = self.around.cluster
        matched = (
            None
            if cluster.fails_now()
            else match_topics(sorted(effect.resolution.regexes), cluster.topics.by_name)
        )
        resolved = RegexesResolved(topics=matched, version=cluster.topics.names_version)
        self.feed(inputs.Done(effect, resolved))

    def _assign(self, effect: Assign, load: int) -> None:
        """A plug-in answers: with a good target, or with one in which a member keeps what it has,
        even if another one gets it. The time limit is part of the plug-in's failures."""
        if load != self._loads:
            return
        world, computation = self.around.world, effect.computation
        target, failure = dict(ASSIGNORS["uniform"](spec_of(computation))), ""
        if world.chance(self.around.plug_in_failure_rate):
            world.counts["results that plug-ins spoilt"] += 1
            if target and world.chance(0.5):
                del target[world.dice.choice(sorted(target))]
            else:
                failure = "no answer"
        assigned = AssignmentReceived(epoch=computation.epoch, target=target, failure=failure)
        self.feed(inputs.Done(effect, assigned))

    # -- time ------------------------------------------------------------------------------------

    def _watch_the_clock(self) -> None:
        due_ms = self.group.next_ms()
        if due_ms is not None and (self._timer_at_ms is None or due_ms < self._timer_at_ms):
            self._timer_at_ms = due_ms
            lag_ms = self.around.world.between(0, TIMER_LAG_MS_MAX)
            self._after(max(0, due_ms - self.now_ms) + lag_ms, self._time_passed, due_ms)

    def _time_passed(self, due_ms: int) -> None:
        if due_ms != self._timer_at_ms or self.is_paused:
            if self.is_paused:
                self._timer_at_ms = None
            return
        self._timer_at_ms = None
        next_ms = self.group.next_ms()
        if next_ms is None or next_ms > self.now_ms:
            self._watch_the_clock()
            return
        self.feed(inputs.TimerFired())
        if self.topics is not self.around.cluster.topics:
            self.feed(inputs.TopicsMoved(self.around.cluster.topics))

    def _tick(self) -> None:
        if not self.is_paused:
            self.pauses.observe(self.now_ms)
        self._after(TICK_MS, self._tick)
