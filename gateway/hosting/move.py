"""The move of one group between the cluster and this gateway: an adoption or a release.

Both have the same life, which this module has; `Adopting` (`adoption.py`) and `Releasing`
(`release.py`) have their steps:

1. It is requested. What speaks against it is the outcome of every request, which is concluded here
   and nowhere else.
2. Once the group is loaded, it begins. If the log has a move that an earlier process began, or this
   one before a bug, it continues from the stored step, whether anyone requests it or not.
3. It sends requests to the coordinator, and has the log store how far it has come. Meanwhile it
   says how calls are handled.
4. It ends: the other side serves the group, or an adoption is undone. Its requests are concluded.

At most one move is under way: a request for the other kind is refused. Steps of an earlier one that
have no result yet are never taken for its own.
"""

from collections.abc import Collection, Sequence
from typing import Any

from coordinator.interface.events import ReleaseBegan
from coordinator.interface.replies import HeartbeatReply
from gateway.hosting.adoption import Adopting, may_consider
from gateway.hosting.calls import Answer, Call, Commits
from gateway.hosting.effects import Conclude, MoveStep
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.identity import AnchorIds
from gateway.hosting.logged_engine import StepOfMove
from gateway.hosting.move_requests import AnyRequest, MoveOutcome, ReleaseRequest
from gateway.hosting.recall import Recall
from gateway.hosting.release import Releasing
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage, LogPhase, ReleaseStage
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.declaration import Struct

TRY_AGAIN = "the state log failed: try again"
STILL_ENDING = "requests of an earlier adoption are still under way: try again"


class Move:
    """At most one move at a time."""

    def __init__(self, parts: GroupParts) -> None:
        self.is_expected = False
        """Whether the log is known to have a move that is not loaded yet."""
        self._parts = parts
        self._current: Adopting | Releasing | None = None
        """The move that is requested or under way."""
        self._open_requests: list[AnyRequest] = []
        self._earlier_steps: list[MoveStep] = []
        """Steps of moves that are over, without a result so far."""
        self._is_uncertain = False
        """Whether the log may have the beginning, although it did not confirm it."""

    # -- what the group asks ---------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Whether the group changes its coordinator, or is about to."""
        return self._current is not None or self.is_expected

    @property
    def has_open_steps(self) -> bool:
        """Whether steps of a move that is over have no result yet."""
        return bool(self._earlier_steps)

    def may_consider(self, now_ms: int) -> bool:
        """Whether the gateway may adopt the group by itself now."""
        is_free = not (self.is_under_way or self.has_open_steps or self._parts.engine.is_ending)
        return is_free and may_consider(self._parts, now_ms)

    @property
    def _active(self) -> Adopting | Releasing | None:
        current = self._current
        return current if current is not None and current.has_begun else None

    @property
    def _recall(self) -> Recall | None:
        return None if self._active is None else self._active.recall

    @property
    def has_begun(self) -> bool:
        """Whether its steps have begun."""
        return self._active is not None

    @property
    def is_adopting(self) -> bool:
        """Whether the group may be adopted now: another member than our anchor may hold it."""
        return self.is_expected or isinstance(self._current, Adopting)

    @property
    def stage(self) -> AdoptionStage | ReleaseStage | None:
        """How far it has come."""
        return None if self._active is None else self._active.stage

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
        current = self._current
        return isinstance(current, Releasing) and (not current.has_begun or current.is_displaced)

    @property
    def situation(self) -> GroupSituation | None:
        """What it makes of the group; None if calls do not depend on it."""
        if self._active is not None:
            return self._active.situation
        return GroupSituation.HELD if self.is_expected else None

    @property
    def member_ids(self) -> Collection[str]:
        """The ids of the members that move."""
        return () if self._current is None else self._current.member_ids

    def member_of(self, instance_id: str) -> str | None:
        """The id of the recalled member with this instance id."""
        return None if self._recall is None else self._recall.member_of(instance_id)

    @property
    def why_forwarded(self) -> str:
        """Why the cluster answers a call."""
        return "" if self._current is None else self._current.why_forwarded

    @property
    def outlook(self) -> object:
        """Changes whenever calls that wait may be answered differently."""
        if (begun := self._active) is None:
            return self.situation
        return begun.stage, begun.situation, begun.vouches, begun.guard

    def next_ms(self) -> int | None:
        """When `advance` has something to do again."""
        if (current := self._current) is None:
            return None
        if current.has_begun:
            return current.next_ms()
        is_waiting = self._parts.engine.is_loaded and not current.is_beginning
        return current.begin_by_ms if is_waiting else None

    # -- requests for it -------------------------------------------------------------------------

    def why_busy(self, request: AnyRequest) -> str:
        """Why the request has to wait for a move of the other kind; empty if it does not."""
        busy = self._current
        return "" if busy is None or isinstance(busy, _kind_of(request)) else busy.why_busy

    def accept(self, request: AnyRequest, now_ms: int) -> bool:
        """Begin with it once the group is loaded. False if it is refused."""
        kind, is_ending = _kind_of(request), self._parts.engine.is_ending
        if reason := self.why_busy(request) or (kind.why_ending if is_ending else ""):
            self.refuse(request, reason)
            return False
        if self._current is None:
            self._current = kind(self._parts)
        is_first = not self._open_requests
        if is_first and isinstance(self._current, Releasing):
            assert isinstance(request, ReleaseRequest)
            self._current.prepare(request, now_ms)
        self._open_requests.append(request)
        return True

    def end(self) -> None:
        """Refuse requests from now on: the gateway is shutting down. What has begun continues while
        the process lives; the next one finds it in the log."""
        if self._current is not None:
            self._refuse_all(self._current.why_ending)

    def start_again(self) -> None:
        """After a bug: what the log has of the move decides how it continues."""
        self.is_expected |= self.has_begun
        self._is_uncertain = False
        self._earlier_steps.clear()
        if self._current is not None:
            self._current.abort()
            self._conclude_all(self._refusal(self._current, "a bug: see the log"))
            self._current = None

    def refuse(self, request: AnyRequest, reason: str) -> None:
        """Conclude a request that begins nothing."""
        self._conclude([request], self._refusal(_kind_of(request), reason))

    def _refuse_all(self, reason: str) -> None:
        """Conclude all requests. What has begun continues."""
        if self._current is not None:
            self._conclude_all(self._refusal(self._current, reason))
            if not (self._current.has_begun or self._current.is_beginning):
                self._current = None

    def _refusal(
        self, kind: Adopting | Releasing | type[Adopting | Releasing], reason: str
    ) -> MoveOutcome:
        return kind.outcome_type.refuse(self._parts.group_id, reason)

    def _conclude_all(self, outcome: MoveOutcome) -> None:
        requests, self._open_requests = self._open_requests, []
        self._conclude(requests, outcome)

    def _conclude(self, requests: Sequence[AnyRequest], outcome: MoveOutcome) -> None:
        """Give the operators the outcome."""
        for request in requests:
            request.outcome = outcome
            self._parts.effects.append(Conclude(request))

    # -- its life --------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Begin or continue, as far as the log, the anchor and the time allow it."""
        if not self.has_begun:
            self._begin(now_ms)
        if (current := self._active) is None:
            return
        current.advance(now_ms)
        if current.is_over:
            self._earlier_steps += current.steps
            self._current = None
            self._conclude_all(current.end(now_ms))

    def _begin(self, now_ms: int) -> None:
        """Begin what is requested, or continue from what the log has."""
        engine = self._parts.engine
        if engine.phase is LogPhase.UNREADABLE and not self._is_uncertain:
            self._refuse_all("its state log cannot be read")
        if not engine.is_loaded:
            return
        self.is_expected = False
        was_uncertain, self._is_uncertain = self._is_uncertain, False
        stored = self._kind_in_log()
        if stored is not None and not isinstance(self._current, stored):
            self._refuse_all(stored.why_busy)
            self._current = stored(self._parts)
        current = self._current
        if current is None or current.is_beginning:
            return
        if was_uncertain and stored is None:
            self._refuse_all(TRY_AGAIN)
            return
        if stored is None and not self._open_requests:
            self._current = None  # they were refused while the engine decided on the beginning
            return
        if isinstance(current, Adopting) and self._earlier_steps:
            self._refuse_all(STILL_ENDING)
            return
        outcome = current.begin(self._open_requests, now_ms)
        if outcome is not None:
            self._current = None
            self._conclude_all(outcome)

    def _kind_in_log(self) -> type[Adopting | Releasing] | None:
        """Which move the log has under way."""
        state = self._parts.engine.core.state
        if state.adoption is not None:
            return Adopting
        return Releasing if state.is_leaving else None

    def on_decided(self, event: StepOfMove, *, is_durable: bool, now_ms: int) -> None:
        """The engine has decided on a record of the move, and the log has it or has not."""
        current = self._current
        if current is not None and (current.has_begun or current.is_beginning):
            current.on_stored(event, is_durable=is_durable, now_ms=now_ms)
        if isinstance(event, ReleaseBegan):
            self._is_uncertain = not is_durable and self._parts.engine.is_loading
            if not (is_durable or self._is_uncertain):
                self._refuse_all(TRY_AGAIN)

    def on_done(self, step: MoveStep, result: Any, now_ms: int) -> None:
        """A step was carried out."""
        if (current := self._take_step(step)) is not None:
            current.on_done(step, result, now_ms)

    def on_failed(self, step: MoveStep, reason: str, now_ms: int) -> None:
        """A step has failed, or its outcome is unknown."""
        if (current := self._take_step(step)) is not None:
            current.on_failed(step, reason, now_ms)

    def _take_step(self, step: MoveStep) -> Adopting | Releasing | None:
        """The move, if the step is its own."""
        current = self._active
        if current is None or step not in current.steps:
            self._earlier_steps.remove(step)
            return None
        current.steps.remove(step)
        return current

    def on_relayed(self, answer: Struct, now_ms: int) -> None:
        """The cluster has answered a member's request."""
        match answer, self._active:
            case (
                ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=epoch),
                Releasing() as releasing,
            ) if epoch > 0:
                releasing.on_native_joined(now_ms)
            case _:
                pass

    # -- calls meanwhile -------------------------------------------------------------------------

    def answer(self, call: Call, now_ms: int) -> Answer | None:
        """The answer to a member that is recalled, or to a heartbeat while calls are held, if the
        adoption vouches for the member. None while it has to wait."""
        if (current := self._active) is None:
            return None
        if current.recall is not None:
            return current.recall.answer(call, now_ms)
        return HeartbeatReply() if current.vouches_for(call.event) else None

    def guard_ids(self, now_ms: int) -> AnchorIds | None:
        """The ids under which the commits of recalled members are stored."""
        if self.keeps_anchor:
            return self._parts.anchor.ids(now_ms)
        return None if self._active is None else self._active.guard

    def check(self, call: Commits, now_ms: int) -> bool:
        """Decide on the commits of recalled members. False if they have to wait, as for an anchor
        that renews its place."""
        has_guard = self.guard_ids(now_ms) is not None
        if (recall := self._recall) is None or (
            self.keeps_anchor and self._parts.anchor.is_here and not has_guard
        ):
            return False
        call.guarded, topics = recall.commits, self._parts.engine.topics
        for commit in call.commits.values():
            commit.outcome = recall.check(commit, topics=topics, has_guard=has_guard, now_ms=now_ms)
        return True

    def on_group_lost(self) -> None:
        """Another member has had the group in the cluster. A release that is being written has its
        members already."""
        current = self._current
        if isinstance(current, Releasing) and (current.has_begun or current.is_beginning):
            current.recall.commits.is_barred = True


def _kind_of(request: AnyRequest) -> type[Adopting | Releasing]:
    return Releasing if isinstance(request, ReleaseRequest) else Adopting
