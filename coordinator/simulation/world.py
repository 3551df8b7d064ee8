"""Simulated time: a queue of what happens next, dice, and the transcript of what happened.

The seed alone decides the order. Must not know what the events are.
"""

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

START_MS = 1_000_000
STORY_MAX = 4_000
"""Lines of the transcript that are kept; the newest tell most."""


class World:
    """The clock, the queue and the dice of one run."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311  (chance that can be repeated is the point)
        self.now_ms = START_MS
        self.counts: Counter[str] = Counter()
        self.transcript: deque[tuple[int, str, object]] = deque(maxlen=STORY_MAX)
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = itertools.count()

    def after(self, delay_ms: int, do: Callable[..., object], *args: Any) -> None:
        """Let something happen later; what is due at the same time happens in order of asking."""
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._order), do, args))

    def run_until(self, end_ms: int) -> None:
        """Let happen what happens until then."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            at_ms, _order, do, args = heapq.heappop(queue)
            self.now_ms = at_ms
            do(*args)
        self.now_ms = end_ms

    def tell(self, who: str, what: object) -> None:
        """Add to the transcript; it is put into words only if somebody wants to read it."""
        self.transcript.append((self.now_ms, who, what))

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self.dice.random() * (high - low + 1))
