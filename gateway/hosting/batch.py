"""Decides several requests in order, so that their records can become durable together.

Later requests are decided on a copy of the group to which the earlier records are applied.
"""

from collections.abc import Sequence

from coordinator.engine import GroupEngine, Step
from coordinator.group.state import Record
from coordinator.interface.errors import LongComputation
from coordinator.interface.events import Event, Request
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.value import value
from gateway.events.event import DecisionEvents, GatewayEvent
from gateway.events.record_translator import has_events, translate
from gateway.events.request_translator import refused_conversion, statement
from gateway.quotas.quota_key import QuotaKey

BATCH_MAX = 64
"""Requests in one batch. The rest wait for the next write."""


@value(kw_only=False)
class Decision:
    """The outcome of one event. It takes effect once the records of its batch are durable."""

    event: Event
    step: Step
    reported: DecisionEvents


class Batch:
    """Leaves the engine unchanged; the caller closes the batch, and applies the records once they
    are durable."""

    def __init__(self, engine: GroupEngine) -> None:
        self.decisions: list[Decision] = []
        self.durable: list[DurableRecord] = []
        """The records to write, in the order of the decisions."""
        self._engine = engine
        self._copy: GroupEngine | None = None
        """The group as the first `_copied` decisions leave it."""
        self._copied = 0

    @property
    def has_room(self) -> bool:
        """Whether another request may join the batch. A request that changes nothing does not wait
        for the log, unless an earlier one in the batch has something to write."""
        return bool(self.durable) and len(self.decisions) < BATCH_MAX

    def decide(
        self,
        event: Event,
        *,
        now_ms: int,
        topics: Topics,
        owner: QuotaKey | None = None,
        may_take_long: bool = True,
    ) -> None:
        """Decide an event on the group as the earlier decisions leave it; see `GroupEngine.handle`.
        `owner`: whose request it is.

        Raises InvariantError or LongComputation."""
        engine = self._latest() if self.decisions else self._engine
        step = engine.handle(event, now_ms=now_ms, topics=topics, may_take_long=may_take_long)
        refused = refused_conversion(engine.state, event, step)
        events = self._translate(step.records, topics) if has_events(step.records) else []
        if (stated := statement(event, step, topics)) is not None:
            events.insert(0, stated)
        if refused is not None:
            events.append(refused)
        self.durable += step.durable
        self.decisions.append(Decision(event, step, DecisionEvents(events, now_ms, owner)))

    def _translate(self, records: Sequence[Record], topics: Topics) -> list[GatewayEvent]:
        """The events of the next decision, which the copy has then."""
        if self._copy is None:
            self._copy = self._engine.fork()
        try:
            events = translate(self._copy, records, topics)
        except Exception:
            self.close()  # the copy has a part of the decision
            raise
        self._copied += 1
        return events

    def refusal(self, event: Request, *, now_ms: int, topics: Topics) -> Reply | None:
        """The engine's refusal of an event after the earlier decisions. None if the event would
        be accepted, or if it changes the group."""
        try:
            engine = self._latest() if self.decisions else self._engine
            step = engine.handle(event, now_ms=now_ms, topics=topics, may_take_long=False)
        except LongComputation:
            return None  # the engine checks a request before it computes
        if step.records:
            return None
        return next((reply for _token, reply in step.replies if reply.error), None)

    def close(self) -> None:
        """End the deciding, so that the decisions can be applied to the engine."""
        if self._copy is not None:
            self._copy.release()
            self._copy, self._copied = None, 0

    def _latest(self) -> GroupEngine:
        if self._copy is None:
            self._copy = self._engine.fork()
        for decision in self.decisions[self._copied :]:
            for record in decision.step.records:
                self._copy.apply(record)
        self._copied = len(self.decisions)
        return self._copy
