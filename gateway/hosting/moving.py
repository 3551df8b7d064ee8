"""What an adoption and a release have in common."""

from gateway.hosting.effects import Ask, MoveStep, Requester
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.logged_engine import StepOfMove
from kafka_codecs.declaration import Struct

BACKOFF_MS = 500


class Moving:
    """One adoption or release, from the request for it to its end.

    It begins effects, and has the log store how far it has come. What becomes of these is reported
    to it; `advance` then does what is due.
    """

    def __init__(self, parts: GroupParts) -> None:
        self.has_begun = False
        """Whether the log has it, or its first step is under way."""
        self.is_beginning = False
        """Whether the engine is deciding on the beginning."""
        self.begin_by_ms: int | None = None
        """When `begin` no longer waits for what has to come first, if it waits."""
        self.steps: list[MoveStep] = []
        """The effects that have no result yet. The move takes one out when its result is here."""
        self._parts = parts
        self._is_storing = False

    def abort(self) -> None:
        """Count no longer as under way."""

    def _count_awaited(self, kind: type[MoveStep], requester: Requester | None = None) -> int:
        """How many such steps have no result yet."""
        return sum(
            isinstance(step, kind)
            and (requester is None or (isinstance(step, Ask) and step.requester is requester))
            for step in self.steps
        )

    def _begin_step(self, step: MoveStep) -> None:
        self.steps.append(step)
        self._parts.effects.append(step)

    def _ask(self, requester: Requester, message: Struct) -> None:
        self._begin_step(Ask(requester, message))

    def _store(self, record: StepOfMove) -> None:
        self._is_storing = True
        self._parts.engine.observe(record)
