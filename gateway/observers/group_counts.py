"""What the drivers of all groups count."""

from collections import Counter
from dataclasses import dataclass, field

from gateway.hosting.answers import Situation
from gateway.hosting.calls import Answer, Outcome, Refused
from gateway.hosting.effects import Log, TellNow
from gateway.observers.durations import Durations


@dataclass(slots=True)
class GroupCounts:
    """Since the start."""

    log_writes: Durations = field(default_factory=Durations)
    """How long each write of the state log took."""
    refusals: Counter[Situation] = field(default_factory=Counter)
    """Why the gateway itself refused requests. The engine's refusals count by their codes."""
    anchors_lost: int = 0
    """How often the cluster no longer had an anchor."""

    def note_answer(self, answer: Answer | None) -> None:
        """Count the refusals in the answer to a call."""
        match answer:
            case Refused(situation):
                self.refusals[situation] += 1
            case dict():
                for outcome in answer.values():
                    self._note_outcome(outcome)
            case _:
                pass

    def note_line(self, line: Log | TellNow) -> None:
        """Count what a line of a group says."""
        self.anchors_lost += isinstance(line, Log) and line.event == "anchor_lost"

    def _note_outcome(self, outcome: Outcome) -> None:
        if outcome.refused is not None:
            self.refusals[outcome.refused.situation] += 1
