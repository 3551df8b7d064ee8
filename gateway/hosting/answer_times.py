"""How long the heartbeats of a group took to be answered lately."""

from collections import deque

ANSWERS_KEPT = 100
"""The longest of so many is at least their 99th percentile."""


class AnswerTimes:
    """The times of the latest answers that took the long way. Answers at rest take no time."""

    def __init__(self) -> None:
        self._times_ms: deque[int] = deque(maxlen=ANSWERS_KEPT)

    def note(self, time_ms: int) -> None:
        """A heartbeat was answered, or given up, after this time."""
        self._times_ms.append(time_ms)

    @property
    def longest_ms(self) -> int:
        """The longest of them, 0 if there are none."""
        return max(self._times_ms, default=0)
