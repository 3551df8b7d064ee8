"""Counts the answers to requests about groups, by api and error code, and measures those that take
time."""

from collections import Counter, defaultdict

from gateway.observers.durations import Durations
from kafka_codecs.declaration import Struct


class AnswerCounts:
    """One addition per answer: it is counted where requests pass, and read at leisure."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[type[Struct], int]] = Counter()
        """By type of the answer and its error code. An answer that has a code per entry counts
        with 0."""
        self.waits: defaultdict[type[Struct], Durations] = defaultdict(Durations)
        """How long the answers took that were not given at once."""

    def note(self, answer: Struct) -> None:
        """Count an answer."""
        self.counts[type(answer), getattr(answer, "error_code", 0)] += 1

    def note_wait(self, answer: type[Struct], length_s: float) -> None:
        """The answer took so long. One that was given at once is not measured: a look at the clock
        would cost a part of it."""
        self.waits[answer].note(length_s)
