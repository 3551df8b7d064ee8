"""The move of one group between the cluster and this gateway: an adoption or a release.

Both have the same life, which this module has. They differ in their steps, which a machine decides
(`Adopting`, `Releasing`), and in what these mean for the engine and the anchor, which a strategy
knows (`adoption_strategy.py`, `release_strategy.py`):

1. It is requested. What speaks against it is the outcome of every request, which is concluded here
   and nowhere else.
2. Once the group is loaded, it begins. If the log has a move that an earlier process began, or this
   one before a bug, it goes on from the stored step, whether anyone requests it or not.
3. The machine is told what has happened, and asks for steps: requests to the coordinator, and
   records of how far it has come. Meanwhile it says how calls are handled.
4. It ends: the other side serves the group, or an adoption is undone. Its requests are concluded.

At most one move is under way: a request for the other kind is refused. Steps of an earlier one that
have no result yet are never taken for its own.
"""

from collections.abc import Container, Sequence
from typing import Any, TypeAlias

from coordinator.interface.events import (
    HeartbeatReceived,
    ReleaseBegan,
)
from coordinator.interface.replies import HeartbeatReply
from gateway.hosting import adoption_steps as steps
from gateway.hosting.adoption import Adopting
from gateway.hosting.adoption_strategy import AdoptionStrategy
from gateway.hosting.calls import Answer, Call, Commits, StoreCommits
from gateway.hosting.effects import Conclude, MoveStep
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.logged_engine import StepOfMove
from gateway.hosting.move_requests import AnyRequest, MoveOutcome, ReleaseRequest
from gateway.hosting.recall import Recall
from gateway.hosting.recalled_group import RecalledGroup
from gateway.hosting.release import Releasing
from gateway.hosting.release_steps import NativeJoined
from gateway.hosting.release_strategy import ReleaseStrategy
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage, LogPhase, ReleaseStage
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup

MoveStrategy: TypeAlias = AdoptionStrategy | ReleaseStrategy

LOG_FAILED = "the state log failed"
TRY_AGAIN = f"{LOG_FAILED}: try again"


class Move:
    """At most one move at a time."""

    def __init__(self, parts: GroupParts) -> None:
        self.recall = Recall(
            heartbeat_interval_ms=parts.rules.config.consumer_heartbeat_interval_ms
        )
        self.is_expected = False
        """Whether the log is known to have a move that is not loaded yet."""
        self._parts = parts
        self._adoption, self._release = AdoptionStrategy(parts), ReleaseStrategy(parts)
        self._current: MoveStrategy | None = None
        """The strategy of the move that is requested or under way."""
        self._open_requests: list[AnyRequest] = []
        self._steps: dict[MoveStep, MoveStrategy] = {}
        """Steps that have no result yet, each with its strategy."""
        self._is_uncertain = False
        """Whether the log may have the beginning, although it did not confirm it."""
        self._is_ending = False

    # -- what the group asks ---------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Whether the group changes its coordinator, or is about to."""
        return self._current is not None or self.is_expected

    def may_consider(self, now_ms: int) -> bool:
        """Whether the gateway may adopt the group by itself now."""
        is_free = not (self.is_under_way or self._steps or self._is_ending)
        return is_free and self._adoption.may_consider(now_ms)

    @property
    def has_begun(self) -> bool:
        """Whether its steps have begun."""
        return self._machine is not None

    @property
    def is_adopting(self) -> bool:
        """Whether the group may be adopted now: another member than our anchor may hold it."""
        return self.is_expected or self._current is self._adoption

    @property
    def _machine(self) -> Adopting | Releasing | None:
        return None if self._current is None else self._current.machine

    @property
    def stage(self) -> AdoptionStage | ReleaseStage | None:
        """How far it has come."""
        machine = self._machine
        return None if machine is None else machine.stage

    @property
    def keeps_anchor(self) -> bool:
        """Whether the anchor holds the group for members that may still hold partitions."""
        return self.stage is ReleaseStage.RECALLING

    @property
    def bars_anchor(self) -> bool:
        """Whether no call may have the anchor join."""
        return self.is_adopting or (self.has_begun and not self.keeps_anchor)

    @property
    def seeks_anchor(self) -> bool:
        """Whether an anchor may be in the group whose place a release has not taken yet."""
        machine = self._release.machine
        return self._current is self._release and (machine is None or machine.is_displaced)

    @property
    def situation(self) -> GroupSituation | None:
        """What it makes of the group; None if calls do not depend on it."""
        if self._machine is not None:
            return self._machine.situation
        return GroupSituation.HELD if self.is_expected else None

    @property
    def why_forwarded(self) -> str:
        """Why the cluster answers a call."""
        return "" if self._current is None else self._current.why_forwarded

    @property
    def outlook(self) -> object:
        """Changes whenever calls that wait may have something to go on with."""
        adopting = self._adoption.machine
        vouching = None if adopting is None else (adopting.vouches, adopting.guard)
        return self.stage, self.situation, vouching

    def next_ms(self) -> int | None:
        """When `advance` has something to do again."""
        if self._current is None:
            return None
        if self._current.machine is not None:
            return self._current.machine.next_ms()
        is_waiting = self._parts.engine.is_loaded and not self._release.is_beginning
        return self._current.waits_until_ms if is_waiting else None

    # -- requests for it -------------------------------------------------------------------------

    def why_busy(self, request: AnyRequest) -> str:
        """Why the request has to wait for a move of the other kind; empty if it does not."""
        busy = self._current
        return "" if busy is None or busy is self._strategy_of(request) else busy.why_busy

    def accept(self, request: AnyRequest, now_ms: int) -> bool:
        """Begin with it once the group is loaded. False if it is refused."""
        strategy = self._strategy_of(request)
        if busy := self.why_busy(request):
            self.refuse(request, busy)
            return False
        if self._is_ending:
            self.refuse(request, strategy.why_ending)
            return False
        if isinstance(request, ReleaseRequest) and not self._open_requests:
            self._release.prepare(request, now_ms)
        self._current = strategy
        self._open_requests.append(request)
        return True

    def end(self) -> None:
        """The gateway is shutting down. What has begun goes on while the process lives; the next
        one finds it in the log."""
        self._is_ending = True
        if self._current is not None:
            self._refuse(self._current.why_ending)

    def start_again(self) -> None:
        """After a bug: what the log has of the move decides how it goes on."""
        self.is_expected |= self.has_begun
        self._is_uncertain = False
        self._steps.clear()
        if self._current is not None:
            self._current.abort()
            self._refuse("a bug: see the log")

    def refuse(self, request: AnyRequest, why: str) -> None:
        """Conclude a request that begins nothing."""
        self._conclude([request], self._strategy_of(request).refused(why))

    def _refuse(self, why: str) -> None:
        """Conclude all requests. What has begun goes on."""
        if self._current is not None:
            self._conclude_all(self._current.refused(why))

    def _conclude_all(self, outcome: MoveOutcome) -> None:
        requests, self._open_requests = self._open_requests, []
        if not self.has_begun:
            self._current = None
        self._conclude(requests, outcome)

    def _conclude(self, requests: Sequence[AnyRequest], outcome: MoveOutcome) -> None:
        """Give the operators the outcome."""
        for request in requests:
            request.outcome = outcome
            self._parts.effects.append(Conclude(request))

    # -- its life --------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Take note of what the log has, of the anchor, and of the time."""
        if not self.has_begun:
            self._begin(now_ms)
        strategy = self._current
        if strategy is None or (machine := strategy.machine) is None:
            return
        next_ms = machine.next_ms()
        if next_ms is not None and next_ms <= now_ms:
            self.handle(steps.MoveTimerFired(), now_ms)
        in_flight = len(self.recall.in_flight)
        if (taken := self._release.hand_over(now_ms, commits_in_flight=in_flight)) is not None:
            self.handle(taken, now_ms)
        if machine.is_over:
            self.recall.end()
            self._conclude_all(strategy.end(now_ms))

    def _begin(self, now_ms: int) -> None:
        """Begin what is requested, or go on with what the log has."""
        engine = self._parts.engine
        if engine.phase is LogPhase.UNREADABLE and not self._is_uncertain:
            self._refuse("its state log cannot be read")
        if not engine.is_loaded:
            return
        self.is_expected = False
        was_uncertain, self._is_uncertain = self._is_uncertain, False
        stored = self._stored_strategy()
        if stored is not None and stored is not self._current:
            self._refuse(stored.why_busy)
            self._current = stored
        strategy = self._current
        if strategy is None or self._release.is_beginning:
            return
        if was_uncertain and stored is None:
            self._refuse(TRY_AGAIN)
            return
        outcome = strategy.begin(self._open_requests, now_ms, has_steps=bool(self._steps))
        if strategy.machine is not None:
            self.handle(steps.MoveTimerFired(), now_ms)
        elif outcome is not None:
            self._conclude_all(outcome)

    def _strategy_of(self, request: AnyRequest) -> MoveStrategy:
        return self._release if isinstance(request, ReleaseRequest) else self._adoption

    def _stored_strategy(self) -> MoveStrategy | None:
        """The strategy of the move that the log has under way."""
        state = self._parts.engine.core.state
        if state.adoption is not None:
            return self._adoption
        return self._release if state.is_leaving else None

    def on_decided(self, event: StepOfMove, *, is_durable: bool, now_ms: int) -> None:
        """The engine has decided on a step, and the log has it or has not."""
        if not isinstance(event, ReleaseBegan):
            self.handle(steps.Stored() if is_durable else steps.StoreFailed(LOG_FAILED), now_ms)
            return
        self._release.on_begun(is_durable=is_durable)
        self._is_uncertain = not is_durable and self._parts.engine.is_loading
        if not (is_durable or self._is_uncertain):
            self._refuse(TRY_AGAIN)

    def on_described(
        self, effect: steps.Describe, group: DescribedGroup | None, now_ms: int
    ) -> None:
        """The cluster has described the group, or has not."""
        watched, group_id = self._parts.rules.watched, self._parts.group_id
        if group is not None and self.stage is AdoptionStage.PROPOSED:
            watched.described(group)
        self.on_step(effect, steps.Described(group, watched.group(group_id)), now_ms)

    def on_step(self, step: MoveStep, result: steps.OfDriver, now_ms: int) -> None:
        """A step was carried out, or has failed."""
        if self._steps.pop(step) is self._current:
            self.handle(result, now_ms)

    def on_relayed(self, answer: Struct, now_ms: int) -> None:
        """The cluster has answered a member's request."""
        match answer:
            case ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=epoch) if epoch > 0:
                self.handle(NativeJoined(), now_ms)
            case _:
                pass

    def handle(self, event: Any, now_ms: int) -> None:
        """Tell the machine, and begin the steps that it asks for."""
        strategy = self._current
        if strategy is None or strategy.machine is None:
            return
        engine, effects = self._parts.engine, self._parts.effects
        for effect in strategy.machine.handle(event, now_ms):
            if isinstance(effect, StepOfMove):
                engine.note(effect)
                continue
            if isinstance(effect, steps.Hold):
                self._adoption.hold()
            self._steps[effect] = strategy
            effects.append(effect)

    # -- calls meanwhile -------------------------------------------------------------------------

    def vouch(self, call: Call) -> HeartbeatReply | None:
        """The answer to a heartbeat of the group's generation while calls are held; None if it has
        to wait."""
        machine, event = self._adoption.machine, call.event
        if machine is None or not machine.vouches:
            return None
        assert isinstance(event, HeartbeatReceived)
        self._begin_recall()
        return HeartbeatReply() if self.recall.is_current(event) else None

    def answer(self, call: Call, now_ms: int) -> Answer | None:
        """The answer to a recalled member; None while it has to wait."""
        self._begin_recall()
        answer = self.recall.answer(call, self._holders)
        for heard in self.recall.take_heard():
            self.handle(heard, now_ms)
        return answer

    def store(self, call: Commits, now_ms: int) -> Answer | StoreCommits | None:
        """Have the commits of a recalled member stored under the ids of the member that keeps the
        group, the guard: the anchor, or the leader's member. None while they have to wait, as for
        an anchor that renews its place."""
        self._begin_recall()
        engine, anchor = self._parts.engine, self._parts.anchor
        guard = None if self._adoption.machine is None else self._adoption.machine.guard
        if self.keeps_anchor:
            guard = anchor.ids(now_ms)
            if guard is None and anchor.is_here:
                return None
        return self.recall.store(
            call, topics=engine.topics, holders=self._holders, guard=guard, now_ms=now_ms
        )

    @property
    def _holders(self) -> Container[str]:
        return () if self._machine is None else self._machine.holders

    def _begin_recall(self) -> None:
        """Others may be in a group that is adopted, and the coordinator's next round may not ask
        who owns what, as after a release with native members."""
        if self.recall.has_begun or self._current is None:
            return
        group, releasing = self._current.group(), self._release.machine
        if group is not None:
            recalled = RecalledGroup(self._parts.group_id, group, self._parts.config)
            self.recall.begin(
                recalled,
                has_all_members=releasing is not None,
                leads_rounds=releasing is None or releasing.has_natives,
            )
