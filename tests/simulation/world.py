"""Simulated time: the queue of scheduled calls, the dice, and the transcript of a run.

The seed alone decides the order of the calls.
"""

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from tests.simulation.invariants import BrokenInvariantError, Invariant

START_MS = 1_000_000
TRANSCRIPT_LINES_MAX = 4_000
"""The transcript keeps at most this many of its newest lines."""
CALLS_MAX = 100_000
"""The most calls in one run. An ordinary run makes fewer than ten thousand. One that lets no time
pass would otherwise fill the machine's memory."""


class World:
    """The clock, the queue and the dice of one run."""

    def __init__(self, seed: int, transcript_lines: int = TRANSCRIPT_LINES_MAX) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.now_ms = START_MS
        self.counts: Counter[str] = Counter()
        self.transcript: deque[tuple[int, str, object]] = deque(maxlen=transcript_lines)
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._calls_left = CALLS_MAX

    def after(self, delay_ms: int, do: Callable[..., object], *args: Any) -> None:
        """Schedule a call. Calls that are due at the same time run in the order of scheduling."""
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._order), do, args))

    def run_until(self, end_ms: int) -> None:
        """Run the scheduled calls up to this time. Raises BrokenInvariantError after too many."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            at_ms, _order, do, args = heapq.heappop(queue)
            self.now_ms = at_ms
            if not self._calls_left:
                raise BrokenInvariantError(Invariant.ENDS, f"{CALLS_MAX:,} calls and no end")
            self._calls_left -= 1
            do(*args)
        self.now_ms = end_ms

    def trace(self, who: str, *what: object) -> None:
        """Add to the transcript. Formatting waits until the transcript is read."""
        for entry in what:
            self.transcript.append((self.now_ms, who, entry))

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def between(self, low: int, high: int) -> int:
        """A random integer from `low` to `high`, both included."""
        return low + int(self.dice.random() * (high - low + 1))
