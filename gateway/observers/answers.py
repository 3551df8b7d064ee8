"""Counts the answers to requests about groups, by api and error code."""

from collections import Counter

from kafka_codecs.declaration import Struct


class AnswerCounts:
    """One addition per answer: it is counted where requests pass, and read at leisure."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[type[Struct], int]] = Counter()
        """By type of the answer and its error code. An answer that has a code per entry counts
        with 0."""

    def note(self, answer: Struct) -> None:
        """Count an answer."""
        self.counts[type(answer), getattr(answer, "error_code", 0)] += 1
