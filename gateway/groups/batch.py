"""Requests that are decided one after another and then durable together, or not at all.

Owns the copy of the group that the later ones are decided on. Must not know who asks, or what a
log is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.engine import GroupEngine, Step
from coordinator.errors import LongComputation
from coordinator.events import Event, Request
from coordinator.records import DurableRecord
from coordinator.replies import Reply
from coordinator.topics import Topics
from gateway.events.journal import Told
from gateway.events.record_translator import tell
from gateway.events.refusals import refused_conversion
from gateway.events.statements import statement

BATCH_MAX = 64
"""Requests of one batch; those who wait beyond it wait for the log twice."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one event, real once the records of its batch are durable."""

    event: Event
    step: Step
    told: Told


class Batch:
    """Leaves the engine as it was: whoever makes the decisions real applies their records."""

    def __init__(self, engine: GroupEngine) -> None:
        self.decisions: list[Decision] = []
        self._engine = engine
        self._copy: GroupEngine | None = None
        self._copied = 0

    @property
    def durable(self) -> Sequence[DurableRecord]:
        """The records for the log, in the order of the decisions."""
        return tuple(record for decision in self.decisions for record in decision.step.durable)

    @property
    def has_room(self) -> bool:
        """Whether to wait for the log together. What changes nothing need not wait for it at all,
        unless it was decided after something that does."""
        return len(self.decisions) < BATCH_MAX and bool(
            self.decisions and self.decisions[0].step.durable
        )

    def decide(
        self, event: Event, *, now_ms: int, topics: Topics, may_take_long: bool = True
    ) -> None:
        """Decide on the group as the decisions so far will leave it; see `GroupEngine.handle`.
        Raises InvariantError, LongComputation."""
        engine = self._latest()
        step = engine.handle(event, now_ms=now_ms, topics=topics, may_take_long=may_take_long)
        events = tell(engine.state, step.records, topics)
        if (stated := statement(event, step, topics)) is not None:
            events.insert(0, stated)
        if (refused := refused_conversion(engine.state, event, step)) is not None:
            events.append(refused)
        self.decisions.append(Decision(event, step, Told(events, now_ms)))

    def refusal(self, event: Request, *, now_ms: int, topics: Topics) -> Reply | None:
        """What the event would be refused with after the decisions so far; None if it would not be,
        or if it changes something all the same."""
        try:
            step = self._latest().handle(event, now_ms=now_ms, topics=topics, may_take_long=False)
        except LongComputation:
            return None  # all checks come before it
        if step.records:
            return None
        return next((reply for _token, reply in step.replies if reply.error), None)

    def _latest(self) -> GroupEngine:
        if not self.decisions:
            return self._engine
        if self._copy is None:
            self._copy = self._engine.fork()
        for decision in self.decisions[self._copied :]:
            for record in decision.step.records:
                self._copy.apply(record)
        self._copied = len(self.decisions)
        return self._copy
