"""A small world of adoption in which the shipped hosting machine has the group.

`AdoptionWorld` plays the steps of an adoption beside a model of the hosting around them. Here the
machine decides what is relayed, held and resumed, and its anchor goes on afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordinator.engine import GroupEngine
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.load import has_members
from coordinator.interface.events import (
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import GroupAdoption
from coordinator.interface.replies import Reply
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    Describe,
    Described,
    Hold,
    Lane,
    Treatment,
    Unanswered,
    Wish,
)
from gateway.hosting.adoption_steps import Input as StepInput
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import (
    LOST,
    Answer,
    Call,
    Commit,
    Commits,
    Forwarded,
    LearnTopics,
    LocateCoordinator,
    ProbeBroker,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.effects import (
    AnswerClient,
    AskCoordinator,
    Awaited,
    Conclude,
    Effect,
    Forget,
    Load,
    LoadedGroup,
    Log,
    Look,
    MoveStep,
    Tell,
    TellNow,
    Write,
)
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import (
    Adopt,
    Asked,
    Damage,
    Done,
    Failed,
    Gone,
    Input,
    Resumed,
    TimePassed,
)
from gateway.hosting.standing import Found, Nobody, Occupants
from gateway.hosting.states import AnchorPhase
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.adoption_world import AdoptionWorld, Sending
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.replies import reply_to
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_cluster import GROUP
from tests.simulation.explorer.small_consumers import TOPIC
from tests.simulation.explorer.small_world import failure, new_machine

_APIS: Mapping[type[Request], GroupApi] = {
    JoinGroupReceived: GroupApi.JOIN,
    SyncGroupReceived: GroupApi.SYNC,
    HeartbeatReceived: GroupApi.HEARTBEAT,
    LeaveGroupReceived: GroupApi.LEAVE,
}
ANCHOR = AskCoordinator.__name__
"""The pending effect with the anchor's own request."""


@dataclass(slots=True, eq=False)
class Watching:
    """Stands for the watch over relayed requests: what it knows, the world says."""

    known: WatchedGroup | None = None

    def group(self, _group_id: str) -> WatchedGroup | None:
        """What is known of the group."""
        return self.known

    def described(self, group: DescribedGroup) -> None:
        """Nothing that the world does not know."""

    def forget(self, _group_id: str) -> None:
        """The group is no longer forwarded."""


@dataclass(eq=False, kw_only=True)
class HostedAdoptionWorld(AdoptionWorld):
    """One state of the world. `here` is the engine of the machine."""

    group: HostedGroup
    watching: Watching
    runs: int = 1
    calls: dict[str, Call] = field(default_factory=dict)
    """The requests of consumers behind the gateway."""
    relaying: set[str] = field(default_factory=set)
    """The consumers whose requests the cluster answers."""
    commits: dict[str, Commits] = field(default_factory=dict)
    steps: list[MoveStep] = field(default_factory=list)
    """The effects of the adoption that are under way."""
    anchor_ask: AskCoordinator | None = None

    # -- what is open ----------------------------------------------------------------------------

    @property
    def treatment(self) -> Treatment:
        """What becomes of requests that reach the gateway, as far as the search needs it."""
        if self.group.adoption.treatment is not None:
            return self.group.adoption.treatment
        is_ours = self.here.state.group is not None or self.upstream.is_anchored
        return Treatment.HOSTED if is_ours else Treatment.FORWARDED

    @property
    def may_be_adopted(self) -> bool:
        """Whether an operator may give the command now."""
        return not self.group.adoption.is_under_way and self.treatment is Treatment.FORWARDED

    def is_drained(self) -> bool:
        """Whether nothing is under way that was relayed."""
        commits = any(each.route == "relayed" for each in self.sendings.values())
        return not (self.relaying or commits)

    def is_time_up(self) -> bool:
        """Whether the machine has to be told that time has passed."""
        at_ms = self.group.next_ms()
        return at_ms is not None and at_ms <= self.now_ms

    def _next_ms(self) -> int | None:
        times = [self.upstream.engine.next_deadline_ms(), self.group.next_ms()]
        times += [
            consumer.beat_due_ms
            for name, consumer in self.consumers.items()
            if consumer is not None and name not in self.asked
        ]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _wait(self) -> None:
        next_ms = self._next_ms()
        assert next_ms is not None
        self.now_ms = max(self.now_ms, next_ms)
        self.upstream.pass_time(self.now_ms)

    # -- the machine -----------------------------------------------------------------------------

    def _take(self, event: Input) -> None:
        only = self.group.take_at_rest(event, self.now_ms)
        effects = self.group.handle(event, self.now_ms) if only is None else (only,)
        self.here = self.group.engine.core
        for effect in effects:
            match effect:
                case Log(error=error):
                    promise(error is None, "the engine fails:", repr(error))
                case Tell() | TellNow() | AnswerClient() | Conclude():
                    pass
                case ProbeBroker() | StoreCommits() | LearnTopics() | LocateCoordinator():
                    pass  # `_settle` sees them
                case _:
                    if isinstance(effect, MoveStep):
                        self.steps.append(effect)
                    self._note([effect])  # type: ignore[list-item]  # one of an adoption or not

    def _feed(self, event: StepInput) -> None:
        self.watching.known = self._watched()
        match event:
            case Described(group):
                self._take(Done(self._step(Describe), group))
            case Answered(lane, answer):
                self._take(Done(self._ask_of(lane), answer))
            case Unanswered(lane, why):
                self._take(Failed(self._ask_of(lane), why))
            case _:
                self._take(Done(self._step(Hold)))

    def _step(self, kind: type[Describe | Hold]) -> MoveStep:
        """The effect of this kind that ends now."""
        step = next(each for each in self.steps if isinstance(each, kind))
        self.steps.remove(step)
        return step

    def _ask_of(self, lane: Lane) -> MoveStep:
        """The oldest request of this lane, which ends now."""
        ask = next(each for each in self.steps if isinstance(each, Ask) and each.lane is lane)
        self.steps.remove(ask)
        return ask

    def _play(self, verb: str, what: str) -> None:
        match verb:
            case "adopt":
                self._take(Adopt(Wish()))
            case "tick":
                self._take(TimePassed())
                promise(not self.is_time_up(), "the machine waits for a time that has passed")
            case "hear" if what == ANCHOR:
                assert self.anchor_ask is not None
                self._take(Done(self.anchor_ask, self.answers.pop(ANCHOR)))
            case _:
                super()._play(verb, what)

    def _carry_out(self, how: str, name: str) -> None:
        effect: Awaited = self.pending[name]  # type: ignore[assignment]  # see `_take`
        if isinstance(effect, MoveStep):
            super()._carry_out(how, name)
            return
        del self.pending[name]
        if how == "fail":
            self._take(failure(effect, Damage.NONE))
        elif how == "fail-unsure":
            self._answer(effect)
            self._take(failure(effect, Damage.UNSURE))
        elif isinstance(effect, AskCoordinator):
            token, self.anchor_ask = self._token(), effect
            self.lanes[token] = ANCHOR
            self.upstream.tell(self.upstream.read(token, effect.message), self.now_ms)
        else:
            self._take(self._answer(effect))

    def _answer(self, effect: Awaited) -> Input:
        match effect:
            case Look():
                return Done(effect, self._found())
            case Load():
                engine = GroupEngine(GROUP, self.shape.config)
                engine.load(self.log, now_ms=self.now_ms)
                return Done(effect, LoadedGroup(engine, self.topics))
            case Write(batch):
                self._write(batch.durable)
                return Done(effect)
            case Forget():
                return Done(effect)
            case _:
                raise TypeError(f"{effect} does not occur in a small world")

    def _found(self) -> Found:
        if isinstance(self.upstream.engine.state.group, ConsumerGroup):
            return Occupants("consumer", ("n",))
        described = self.upstream.describe()
        return Occupants.of(described) if described.members else Nobody()

    def _restart(self, *, keeps_requests: bool) -> None:
        """The gateway is killed, and another process begins with its log."""
        asked: Effect | None = self.pending.get(ANCHOR)  # type: ignore[assignment]
        if keeps_requests and isinstance(asked, AskCoordinator):
            self.left_behind.append(asked.message)
        self._forget_process(keeps_requests=keeps_requests)
        for table in (self.calls, self.commits, self.relaying, self.steps):
            table.clear()
        self.anchor_ask = None
        self.runs += 1
        self.group, self.watching = _new_group(self.shape, self.runs, self.now_ms)
        self.here = self.group.engine.core
        is_adopting = any(isinstance(each, GroupAdoption) for each in self.log)
        if is_adopting or has_members(self.log):
            self._take(Resumed(is_adopting=is_adopting))

    # -- consumers -------------------------------------------------------------------------------

    def _treat(self, name: str, event: Request) -> None:
        call = Call(
            api=_APIS[type(event)],
            event=event,
            token=event.token,
            connection=self.behind.index(name) + 1,
            knows_topics=True,
            is_at_coordinator=True,
        )
        self.calls[name] = call
        self._take(Asked(call))

    def _settle(self) -> None:
        """Let everybody hear what was answered, and relay what the cluster has to answer."""
        self._hear_upstream()
        for name, call in list(self.calls.items()):
            match call.answer:
                case None:
                    pass
                case Forwarded():
                    del self.calls[name]
                    self.relaying.add(name)
                    assert call.event is not None
                    self.upstream.tell(call.event, self.now_ms)
                case answer:
                    self._hear(name, reply_to(call.api, answer))
        for name, call in list(self.commits.items()):
            while isinstance(call.errand, ProbeBroker):
                self._take(Done(call.errand, True))
            self._follow(name, call)
        self._hear_upstream()

    def _hear(self, name: str, reply: Reply) -> None:
        self.calls.pop(name, None)
        self.relaying.discard(name)
        super()._hear(name, reply)

    def _end(self, name: str) -> None:
        call, commit = self.calls.pop(name, None), self.commits.pop(name, None)
        self.relaying.discard(name)
        super()._end(name)
        for each in (call, commit):
            if each is not None and each.answer is None:
                self._take(Gone(each))

    def _leave_behind(self, name: str, sending: Sending) -> None:
        self.strays.append((sending, name))

    # -- commits ---------------------------------------------------------------------------------

    def _route(self, name: str, sending: Sending) -> None:
        make = sending.make
        commit = Commit(
            make=make,
            topic_names=frozenset((TOPIC,)),
            has_member=True,
            order_keys=frozenset((make.member_id,)),
            token=self._token(),
        )
        sending.token = commit.token
        call = self.commits[name] = Commits(
            api=GroupApi.COMMIT,
            token=self._token(),
            commits={commit.token: commit},
            knows_topics=True,
            is_at_coordinator=True,
        )
        self._take(Asked(call))

    def _follow(self, name: str, call: Commits) -> None:
        """See what becomes of a commit."""
        sending = self.sendings[name]
        match call.errand, call.answer:
            case StoreCommits(ids=ids), _:
                is_recalled = self.treatment is Treatment.RECALLED
                sending.route, sending.ids = "guarded" if is_recalled else "hosted", ids
            case _, None:
                sending.route = "held"
            case _, Forwarded():
                sending.route = "relayed"
            case _, answer:
                del self.commits[name]
                self._committed(name, sending, _code_of(answer))

    def _store(self, name: str, *, is_lost: bool) -> None:
        sending = self.sendings[name]
        call = self.commits[name]
        if sending.route == "relayed":
            del self.commits[name]
            super()._store(name, is_lost=is_lost)
        elif is_lost:
            self.strays.append((replace(sending), name))
            self._take(Done(_store_of(call), {sending.token: LOST}))
        else:
            errand = _store_of(call)
            codes = frozenset((self._store_in_cluster(name, sending),))
            self._take(Done(errand, {sending.token: codes}))

    # -- looking ---------------------------------------------------------------------------------

    def is_at_rest(self) -> bool:
        """Whether every consumer has its share, and nothing is under way."""
        is_adopting = self.group.adoption.is_under_way
        is_held = not self.group.is_live or self.group.anchor.phase is AnchorPhase.STABLE
        return not is_adopting and is_held and super().is_at_rest()


def _store_of(call: Commits) -> StoreCommits:
    assert isinstance(call.errand, StoreCommits)
    return call.errand


def _code_of(answer: Answer | None) -> int:
    """What a client hears of its only commit."""
    promise(not isinstance(answer, Unanswerable), "a commit could not even be refused")
    if not isinstance(answer, Mapping):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (outcome,) = answer.values()
    if outcome.refused is not None:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if outcome.is_away:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return outcome.verdict.error if outcome.verdict is not None else ErrorCode.UNKNOWN_SERVER_ERROR


def _new_group(shape: Shape, run: int, now_ms: int) -> tuple[HostedGroup, Watching]:
    watching = Watching()
    group = new_machine(shape, run, now_ms, watched=watching)  # type: ignore[arg-type]
    return group, watching


def hosted(world: AdoptionWorld) -> HostedAdoptionWorld:
    """The same world, with the machine."""
    group, watching = _new_group(world.shape, 1, world.now_ms)
    fields = {name: getattr(world, name) for name in AdoptionWorld.__dataclass_fields__}
    made = HostedAdoptionWorld(group=group, watching=watching, **fields)
    made.here = group.engine.core
    return made
