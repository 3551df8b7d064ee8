"""What the gateway counts as it serves: answers, refusals, and how long things take."""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Answer, Outcome, Refused
from gateway.hosting.effects import EmitNow, Log
from kafka_codecs.declaration import Struct

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Durations:
    """Counts durations, and failures among what took them, in a histogram: one costs a search among
    few bounds."""

    def __init__(self, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        """The number of durations up to each bound, and beyond the last one."""
        self.total_s = 0.0
        self.failures = 0

    def record(self, length_s: float, *, failed: bool = False) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds_s, length_s)] += 1
        self.total_s += length_s
        self.failures += failed


class AnswerCounts:
    """Answers to requests about groups, by api and error code. One addition per answer: it is
    counted where requests pass, and read at leisure."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[type[Struct], int]] = Counter()
        """How many answers there were by type and error code. An answer that has a code per entry
        counts with 0."""
        self.waits: defaultdict[type[Struct], Durations] = defaultdict(Durations)
        """How long the answers took that were not given immediately."""

    def record(self, answer: Struct) -> None:
        """Count an answer."""
        self.counts[type(answer), getattr(answer, "error_code", 0)] += 1

    def record_wait(self, answer: type[Struct], length_s: float) -> None:
        """Count an answer that took so long. One that was given immediately is not measured:
        reading the clock would cost a part of it."""
        self.waits[answer].record(length_s)


@dataclass(slots=True)
class GroupCounts:
    """What the drivers of all groups count, since the start."""

    log_writes: Durations = field(default_factory=Durations)
    """How long each write of the state log took."""
    refusals: Counter[RefusalReason] = field(default_factory=Counter)
    """Why the gateway itself refused requests. The engine's refusals count by their codes."""
    anchors_lost: int = 0
    """How often the cluster no longer had an anchor."""

    def record_answer(self, answer: Answer | None) -> None:
        """Count the refusals in the answer to a call."""
        match answer:
            case Refused(cause):
                self.refusals[cause] += 1
            case dict():
                for outcome in answer.values():
                    self._record_outcome(outcome)
            case _:
                pass

    def record_line(self, line: Log | EmitNow) -> None:
        """Count what a line of a group says."""
        self.anchors_lost += isinstance(line, Log) and line.event == "anchor_lost"

    def _record_outcome(self, outcome: Outcome) -> None:
        if outcome.refused is not None:
            self.refusals[outcome.refused.cause] += 1
